package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/preprocess"
	"github.com/onward-ml/onward/tensor"
)

// The features of k2's models.
const (
	k2Bands = 80
	k2Step  = 40 * time.Millisecond // of an encoding: four frames
)

// k2 is a transducer of k2 and Vosk, with or without streaming.
type k2 struct {
	encoder, decoder, joiner *onward.Session
	vocab                    *speechVocabulary
	unknown                  int // the id of <unk>, which counts as blank, or -1
	context                  int // tokens that the decoder sees
	window, shift            int // frames that a streaming encoder sees, and between them; else 0
}

func openK2(ctx context.Context, f *folder) (*k2, error) {
	m := &k2{}
	if err := m.open(ctx, f); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (m *k2) open(ctx context.Context, f *folder) error {
	names, err := f.speechFiles("tokens", ".txt")
	if err != nil || len(names) != 1 {
		return errors.Join(err, fmt.Errorf("want one file tokens.txt, found %q", names))
	}
	if m.vocab, err = f.speechVocabulary(names[0]); err != nil {
		return err
	}
	m.vocab.blank = 0 // whatever its name
	if slices.ContainsFunc(m.vocab.tokens, func(s string) bool { return strings.Contains(s, "ƌ") }) {
		return fmt.Errorf("%s: byte-level BPE of icefall is not supported", names[0])
	}
	m.unknown = slices.Index(m.vocab.tokens, "<unk>")
	for i, s := range []**onward.Session{&m.encoder, &m.decoder, &m.joiner} {
		if *s, err = f.speechSession(ctx, []string{"encoder", "decoder", "joiner"}[i], i > 0); err != nil {
			return err
		}
	}
	in, out := m.encoder.Inputs(), m.encoder.Outputs()
	meta := k2Metadata{"encoder", m.encoder.Metadata().Custom}
	for i, a := range in {
		if i == 0 && (len(a.Shape) != 3 || a.Shape[2].Value >= 0 && a.Shape[2].Value != k2Bands) ||
			len(in) < 2 || len(out) < 2 {
			return fmt.Errorf("encoder has the inputs %v and outputs %v, want [N,frames,%d] and lengths or states", in,
				out, k2Bands)
		}
	}
	if _, ok := meta.fields["decode_chunk_len"]; ok {
		if m.window, err = meta.number("T", 1, 1<<16); err != nil {
			return err
		}
		if m.shift, err = meta.number("decode_chunk_len", 1, m.window); err != nil {
			return err
		}
		if len(in) != len(out) {
			return fmt.Errorf("encoder has the inputs %v and outputs %v, want as many of both", in, out)
		}
	} else if len(in) != 2 || len(out) != 2 {
		return fmt.Errorf("encoder has %d inputs and %d outputs, but no decode_chunk_len in its metadata", len(in),
			len(out))
	}
	meta = k2Metadata{"decoder", m.decoder.Metadata().Custom}
	if in := m.decoder.Inputs(); len(in) != 1 || in[0].Type != "tensor(int64)" || len(m.joiner.Inputs()) != 2 {
		return fmt.Errorf("decoder has the inputs %v and joiner %v, want tokens, and encoder_out and decoder_out", in,
			m.joiner.Inputs())
	}
	m.context = 2
	if _, ok := meta.fields["context_size"]; ok {
		m.context, err = meta.number("context_size", 1, 1000)
	}
	return err
}

// k2Metadata are the metadata of a model.
type k2Metadata struct {
	model  string
	fields map[string]string
}

// number returns a number within bounds.
func (k k2Metadata) number(field string, least, most int) (int, error) {
	n, err := strconv.Atoi(k.fields[field])
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s: %s in the metadata is %q, want a number from %d to %d", k.model, field,
			k.fields[field], least, most)
	}
	return n, nil
}

func (m *k2) Close() error { return closeSessions(m.encoder, m.decoder, m.joiner) }

func (m *k2) text(tokens []SpokenToken) string { return strings.TrimSpace(concat(tokens)) }

func (m *k2) recognize(ctx context.Context, samples []float32) ([]SpokenToken, error) {
	if m.window > 0 {
		s, err := m.stream()
		if err == nil {
			err = m.write(ctx, s, samples)
		}
		if err == nil {
			err = m.finish(ctx, s)
		}
		if err != nil {
			return nil, err
		}
		return s.found, nil
	}
	x, err := preprocess.KaldiFbank(samples, k2Bands, false)
	if err != nil || x.Dim(0) == 0 {
		return nil, err
	}
	n := x.Dim(0)
	if x, err = tensor.New(tensor.MustData[float32](x), 1, n, k2Bands); err != nil {
		return nil, err
	}
	in, out := m.encoder.Inputs(), m.encoder.Outputs()
	length := tensor.Must(tensor.New([]int64{int64(n)}, 1))
	y, err := m.encoder.Run(ctx, onward.Values{in[0].Name: x, in[1].Name: length}, nil)
	if err != nil {
		return nil, err
	}
	data, shape, err := speechFloats(y[out[0].Name], 1, -1, -1)
	if err != nil {
		return nil, fmt.Errorf("encoder: %s: %w", out[0].Name, err)
	}
	steps, err := count(y[out[1].Name], shape[1])
	if err != nil {
		return nil, fmt.Errorf("encoder: %s: %w", out[1].Name, err)
	}
	h := m.hypothesis()
	err = m.search(ctx, h, data, shape[2], steps)
	return h.found, err
}

// k2Hypothesis is the state of a search.
type k2Hypothesis struct {
	context []int64
	decoded tensor.Value // of the context
	step    int
	found   []SpokenToken
}

func (m *k2) hypothesis() *k2Hypothesis {
	h := &k2Hypothesis{context: slices.Repeat([]int64{-1}, m.context)}
	h.context[m.context-1] = int64(m.vocab.blank)
	return h
}

// search finds the tokens of encodings of shape [steps, size], at most one a step.
func (m *k2) search(ctx context.Context, h *k2Hypothesis, data []float32, size, steps int) error {
	decoded, joined := m.decoder.Outputs()[0].Name, m.joiner.Outputs()[0].Name
	in := m.joiner.Inputs()
	for t := range steps {
		if h.decoded == nil {
			y := tensor.Must(tensor.New(slices.Clone(h.context), 1, m.context))
			out, err := m.decoder.Run(ctx, onward.Values{m.decoder.Inputs()[0].Name: y}, nil)
			if err != nil {
				return err
			}
			h.decoded = out[decoded]
		}
		x, err := tensor.New(data[t*size:(t+1)*size], 1, size)
		if err != nil {
			return err
		}
		out, err := m.joiner.Run(ctx, onward.Values{in[0].Name: x, in[1].Name: h.decoded}, nil)
		if err != nil {
			return err
		}
		scores, _, err := speechFloats(out[joined])
		if err != nil {
			return fmt.Errorf("joiner: %s: %w", joined, err)
		}
		if best := argmax(scores); best != m.vocab.blank && best != m.unknown {
			token, err := m.vocab.spoken(best, time.Duration(h.step+t)*k2Step)
			if err != nil {
				return err
			}
			h.found = append(h.found, token)
			h.context = append(h.context[1:], int64(best))
			h.decoded = nil
		}
	}
	h.step += steps
	return nil
}

// k2Stream is the state of a streaming model.
type k2Stream struct {
	k2Hypothesis
	states  onward.Values // by the name of the input
	samples []float32     // from the first of the next frame
	total   int           // samples so far
	frames  []float32     // from the first of the next window
}

func (m *k2) stream() (*k2Stream, error) {
	s := &k2Stream{k2Hypothesis: *m.hypothesis(), states: onward.Values{}}
	for _, a := range m.encoder.Inputs()[1:] {
		shape := make([]int, len(a.Shape))
		elements := 1
		for i, d := range a.Shape {
			shape[i] = int(max(d.Value, 1)) // the batch is not fixed
			if elements *= shape[i]; elements > 1<<26 {
				return nil, fmt.Errorf("encoder: the state %s has more than %d numbers", a, 1<<26)
			}
		}
		if a.Shape == nil {
			return nil, fmt.Errorf("encoder: the shape of the state %s is unknown", a)
		}
		t, err := tensor.Zeros(a.ElementType().Elem, shape...)
		if err != nil {
			return nil, fmt.Errorf("encoder: state %s: %w", a, err)
		}
		s.states[a.Name] = t
	}
	return s, nil
}

// write adds samples and runs the model on the windows that they complete.
func (m *k2) write(ctx context.Context, s *k2Stream, samples []float32) error {
	// The first frame begins 120 samples before the sound, which is reflected there.
	const before = 120
	s.samples = append(s.samples, samples...)
	if s.total < before && s.total+len(samples) >= before {
		head := slices.Clone(s.samples[:before])
		slices.Reverse(head)
		s.samples = append(head, s.samples...)
	}
	s.total += len(samples)
	if s.total < before {
		return nil
	}
	return m.windows(ctx, s)
}

// finish adds silence, reflects the end and runs the model on the last windows.
func (m *k2) finish(ctx context.Context, s *k2Stream) error {
	if err := m.write(ctx, s, make([]float32, 66*160)); err != nil {
		return err
	}
	const after = 200
	tail := slices.Clone(s.samples[len(s.samples)-after:])
	slices.Reverse(tail)
	s.samples = append(s.samples, tail...)
	return m.windows(ctx, s)
}

// windows computes the frames of the samples and runs the model on all windows.
func (m *k2) windows(ctx context.Context, s *k2Stream) error {
	x, err := preprocess.KaldiFbank(s.samples, k2Bands, true)
	if err != nil {
		return err
	}
	n := x.Dim(0)
	s.samples = slices.Clone(s.samples[n*160:])
	s.frames = append(s.frames, tensor.MustData[float32](x)...)
	in, out := m.encoder.Inputs(), m.encoder.Outputs()
	// One frame more than the window must be there, as in sherpa-onnx.
	for ; len(s.frames)/k2Bands > m.window; s.frames = s.frames[m.shift*k2Bands:] {
		window, err := tensor.New(slices.Clone(s.frames[:m.window*k2Bands]), 1, m.window, k2Bands)
		if err != nil {
			return err
		}
		s.states[in[0].Name] = window
		y, err := m.encoder.Run(ctx, s.states, nil)
		if err != nil {
			return err
		}
		for i := 1; i < len(in); i++ {
			s.states[in[i].Name] = y[out[i].Name]
		}
		data, shape, err := speechFloats(y[out[0].Name], 1, -1, -1)
		if err != nil {
			return fmt.Errorf("encoder: %s: %w", out[0].Name, err)
		}
		if err := m.search(ctx, &s.k2Hypothesis, data, shape[2], shape[1]); err != nil {
			return err
		}
	}
	s.frames = slices.Clone(s.frames)
	return nil
}
