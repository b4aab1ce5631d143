package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/preprocess"
	"github.com/onward-ml/onward/tensor"
)

// nemoConfig is what folders of NeMo's models say beside the models.
type nemoConfig struct {
	bands       int // of features
	subsampling int // frames of a step
	limit       int // of tokens of a step
	durations   bool
	vocab       *speechVocabulary
}

// read reads config.json, which may be missing, and vocab.txt.
func (c *nemoConfig) read(f *folder) error {
	config, err := f.json("config.json")
	if err != nil {
		return err
	}
	c.bands, c.subsampling, c.limit = 80, 8, 10
	kind := "nemo-conformer"
	config.get("model_type", &kind)
	config.get("features_size", &c.bands)
	config.get("subsampling_factor", &c.subsampling)
	config.get("max_tokens_per_step", &c.limit)
	if !strings.HasPrefix(kind, "nemo-conformer") || strings.HasSuffix(kind, "-aed") {
		config.fail("model_type", "%q is not supported, want nemo-conformer-ctc, -rnnt or -tdt", kind)
	}
	c.durations = strings.HasSuffix(kind, "-tdt")
	for field, v := range map[string]int{"features_size": c.bands, "subsampling_factor": c.subsampling,
		"max_tokens_per_step": c.limit} {
		if v < 1 || v > 1000 {
			config.fail(field, "%d, want 1 to 1000", v)
		}
	}
	if config.err != nil {
		return config.err
	}
	if c.vocab, err = f.speechVocabulary("vocab.txt"); err == nil && c.vocab.blank < 0 {
		err = errors.New("vocab.txt: there is no token <blk>")
	}
	return err
}

func (c *nemoConfig) step() time.Duration {
	return time.Duration(c.subsampling) * 10 * time.Millisecond
}

// text joins tokens as onnx-asr does: a space stays if a letter or digit follows it.
func (c *nemoConfig) text(tokens []SpokenToken) string {
	s := []rune(concat(tokens))
	var b strings.Builder
	for i, r := range s {
		switch {
		case !unicode.IsSpace(r):
			b.WriteRune(r)
		case i > 0 && i+1 < len(s) && (unicode.IsLetter(s[i+1]) || unicode.IsNumber(s[i+1]) || s[i+1] == '_'):
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// nemo is a transducer of NeMo.
type nemo struct {
	encoder, decoder *onward.Session
	nemoConfig
	states [2]nemoState
	whole  onward.NodeArg // the inputs targets and target_length
}

// nemoState is a state of the decoder.
type nemoState struct {
	in, out string
	shape   []int
}

func openNeMo(ctx context.Context, f *folder) (*nemo, error) {
	m := &nemo{}
	if err := m.read(f); err != nil {
		return nil, err
	}
	if err := m.open(ctx, f); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (m *nemo) open(ctx context.Context, f *folder) (err error) {
	if m.encoder, err = f.speechSession(ctx, "encoder-model", false); err != nil {
		return err
	}
	if m.decoder, err = f.speechSession(ctx, "decoder_joint-model", true); err != nil {
		return err
	}
	if err := wantArgs("encoder-model", m.encoder, []string{"audio_signal", "length"},
		[]string{"outputs", "encoded_lengths"}); err != nil {
		return err
	}
	in := []string{"encoder_outputs", "targets", "target_length", "input_states_1", "input_states_2"}
	if err := wantArgs("decoder_joint-model", m.decoder, in,
		[]string{"outputs", "output_states_1", "output_states_2"}); err != nil {
		return err
	}
	for _, a := range m.decoder.Inputs() {
		switch a.Name {
		case "targets":
			m.whole = a
		case in[3], in[4]:
			if len(a.Shape) != 3 || a.Shape[0].Value < 1 || a.Shape[2].Value < 1 ||
				a.Shape[0].Value > 1<<10 || a.Shape[2].Value > 1<<16 {
				return fmt.Errorf("decoder_joint-model: the input is %s, want [layers,1,size] with at most "+
					"%d layers of %d numbers", a, 1<<10, 1<<16)
			}
			i := int(a.Name[len(a.Name)-1] - '1')
			m.states[i] = nemoState{a.Name, "output_states_" + a.Name[len(a.Name)-1:],
				[]int{int(a.Shape[0].Value), 1, int(a.Shape[2].Value)}}
		}
	}
	return nil
}

// wantArgs reports which inputs and outputs a model lacks, and those that nothing feeds.
func wantArgs(name string, s *onward.Session, in, out []string) error {
	missing := map[string]bool{}
	for _, n := range append(in[:len(in):len(in)], out...) {
		missing[n] = true
	}
	for _, a := range append(s.Inputs(), s.Outputs()...) {
		delete(missing, a.Name)
	}
	if len(missing) > 0 || len(s.Inputs()) != len(in) {
		return fmt.Errorf("%s has the inputs %v and outputs %v, want %q and %q", name, s.Inputs(), s.Outputs(), in, out)
	}
	return nil
}

func (m *nemo) Close() error { return closeSessions(m.encoder, m.decoder) }

func (m *nemo) recognize(ctx context.Context, samples []float32) ([]SpokenToken, error) {
	x, n, err := preprocess.NeMoFbank(samples, m.bands)
	if err != nil || n == 0 {
		return nil, err
	}
	length := tensor.Must(tensor.New([]int64{int64(n)}, 1))
	out, err := m.encoder.Run(ctx, onward.Values{"audio_signal": x, "length": length}, nil)
	if err != nil {
		return nil, err
	}
	y, size, err := speechFloats(out["outputs"], 1, -1, -1)
	if err != nil {
		return nil, fmt.Errorf("encoder-model: outputs: %w", err)
	}
	steps, err := count(out["encoded_lengths"], size[2])
	if err != nil {
		return nil, fmt.Errorf("encoder-model: encoded_lengths: %w", err)
	}
	return m.search(ctx, y, size[1], size[2], steps)
}

// search finds the tokens of an encoding of shape [size, all], of which the first steps are valid.
func (m *nemo) search(ctx context.Context, y []float32, size, all, steps int) ([]SpokenToken, error) {
	feed := onward.Values{}
	for _, s := range m.states {
		feed[s.in] = tensor.Must(tensor.Zeros(tensor.TypeFloat32, s.shape...))
	}
	var found []SpokenToken
	last, emitted := m.vocab.blank, 0
	for t := 0; t < steps; {
		at := make([]float32, size)
		for i := range at {
			at[i] = y[i*all+t]
		}
		feed["encoder_outputs"] = tensor.Must(tensor.New(at, 1, size, 1))
		feed["targets"], feed["target_length"] = m.integer(last, 1, 1), m.integer(1, 1)
		out, err := m.decoder.Run(ctx, feed, nil)
		if err != nil {
			return nil, err
		}
		scores, _, err := speechFloats(out["outputs"])
		if err != nil {
			return nil, fmt.Errorf("decoder_joint-model: outputs: %w", err)
		}
		n, duration := len(m.vocab.tokens), -1
		if m.durations {
			if len(scores) <= n {
				return nil, fmt.Errorf("decoder_joint-model: %d scores, want more than the %d of the vocabulary",
					len(scores), n)
			}
			duration, scores = argmax(scores[n:]), scores[:n]
		}
		best := argmax(scores)
		if best != m.vocab.blank {
			token, err := m.vocab.spoken(best, time.Duration(t)*m.step())
			if err != nil {
				return nil, err
			}
			found = append(found, token)
			for _, s := range m.states {
				feed[s.in] = out[s.out]
			}
			last = best
			emitted++
		}
		switch {
		case duration > 0:
			t, emitted = t+duration, 0
		case best == m.vocab.blank || emitted == m.limit:
			t, emitted = t+1, 0
		}
	}
	return found, nil
}

// integer returns a tensor of the type of targets.
func (m *nemo) integer(v int, shape ...int) *tensor.Tensor {
	if m.whole.Type == "tensor(int64)" {
		return tensor.Must(tensor.New([]int64{int64(v)}, shape...))
	}
	return tensor.Must(tensor.New([]int32{int32(v)}, shape...))
}

// speechFloats returns the numbers and the shape of an output, as floats does. Without a shape, it
// has any with at least one number.
func speechFloats(v tensor.Value, shape ...int) ([]float32, []int, error) {
	t, ok := v.(*tensor.Tensor)
	if !ok || len(shape) == 0 && t.Len() == 0 {
		return nil, nil, fmt.Errorf("%v, want numbers", v)
	}
	if len(shape) == 0 {
		shape = t.Shape()
	}
	data, err := floats(t, shape...)
	return data, t.Shape(), err
}

// count returns a number of steps, at most limit.
func count(v tensor.Value, limit int) (int, error) {
	n := int64(-1)
	if t, ok := v.(*tensor.Tensor); ok && t.Len() == 1 {
		if x, err := tensor.Data[int64](t); err == nil {
			n = x[0]
		} else if x, err := tensor.Data[int32](t); err == nil {
			n = int64(x[0])
		}
	}
	if n < 0 || n > int64(limit) {
		return 0, fmt.Errorf("%v, want a number of steps, at most %d", v, limit)
	}
	return int(n), nil
}
