package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/preprocess"
	"github.com/onward-ml/onward/tensor"
)

// wav2vec2 is a model of connectionist temporal classification that takes samples.
type wav2vec2 struct {
	session   *onward.Session
	step      time.Duration
	normalize bool
	vocab     speechVocabulary
	lower     bool
}

// openWav2Vec2 opens a folder for Wav2Vec2CTCTokenizer of transformers.
func openWav2Vec2(ctx context.Context, f *folder) (*wav2vec2, int, error) {
	m, rate := &wav2vec2{normalize: true}, 16000
	features, err := f.processorConfig("feature_extractor")
	if err != nil {
		return nil, 0, err
	}
	features.get("sampling_rate", &rate)
	features.get("do_normalize", &m.normalize)
	kind, size := "Wav2Vec2FeatureExtractor", 1
	features.get("feature_extractor_type", &kind)
	features.get("feature_size", &size)
	if kind != "Wav2Vec2FeatureExtractor" || size != 1 {
		features.fail("feature_extractor_type", "%s with %d features is not supported, want Wav2Vec2FeatureExtractor "+
			"with one", kind, size)
	}
	if rate < 1 || rate > 1e6 {
		features.fail("sampling_rate", "%d Hz, want 1 to 1000000", rate)
	}
	settings, err := f.json("tokenizer_config.json")
	if err != nil {
		return nil, 0, err
	}
	blank := specialToken(settings, "pad_token", "<pad>")
	delimiter := specialToken(settings, "word_delimiter_token", "|")
	settings.get("do_lower_case", &m.lower)
	config, err := f.json("config.json")
	if err != nil {
		return nil, 0, err
	}
	strides, samples := []int{5, 2, 2, 2, 2, 2, 2}, 1
	config.get("conv_stride", &strides)
	for _, s := range strides {
		if s < 1 || s > rate || samples > rate {
			config.fail("conv_stride", "%v is not supported, want products below the rate of %d Hz", strides, rate)
			break
		}
		samples *= s
	}
	if err := errors.Join(features.err, settings.err, config.err); err != nil {
		return nil, 0, err
	}
	m.step = time.Duration(samples) * time.Second / time.Duration(rate)
	if m.vocab.tokens, err = f.letters(); err != nil {
		return nil, 0, err
	}
	if m.vocab.blank = slices.Index(m.vocab.tokens, blank); m.vocab.blank < 0 {
		return nil, 0, fmt.Errorf("vocab.json: there is no token %q, which is that of blanks", blank)
	}
	if i := slices.Index(m.vocab.tokens, delimiter); i >= 0 {
		m.vocab.tokens[i] = " "
	}
	m.session, err = f.session(ctx, "model", func(s *onward.Session) error {
		try := *m
		try.session = s
		_, err := try.recognize(ctx, make([]float32, rate))
		return err
	})
	return m, rate, err
}

// letters reads the tokens of vocab.json and added_tokens.json, by id.
func (f *folder) letters() ([]string, error) {
	data, err := f.read("vocab.json", f.opts.maxFile())
	if err != nil {
		return nil, err
	}
	var ids map[string]int
	if err := json.Unmarshal(data, &ids); err != nil {
		return nil, fmt.Errorf("vocab.json: want ids by token: %w", err)
	}
	if ids == nil {
		return nil, errors.New("vocab.json is null, want ids by token")
	}
	added, err := f.json("added_tokens.json")
	if err != nil {
		return nil, err
	}
	for token := range added.fields {
		var id int
		added.get(token, &id)
		ids[token] = id
	}
	if added.err != nil {
		return nil, added.err
	}
	most := 0
	for token, id := range ids {
		if id < 0 || id > len(ids)+1000 {
			return nil, fmt.Errorf("vocab.json: the id of %q is %d, want 0 to %d", token, id, len(ids)+1000)
		}
		most = max(most, id)
	}
	tokens := make([]string, most+1)
	for _, token := range sortedKeys(ids) {
		id := ids[token]
		if tokens[id] != "" {
			return nil, fmt.Errorf("vocab.json: %q and %q have the id %d", tokens[id], token, id)
		}
		tokens[id] = token
	}
	return tokens, nil
}

// specialToken returns a token of tokenizer_config.json: a string, or an object with content.
func specialToken(o *object, field, token string) string {
	var v struct {
		Content string `json:"content"`
	}
	if raw := o.fields[field]; o.has(field) && json.Unmarshal(raw, &token) != nil && o.get(field, &v) {
		return v.Content
	}
	return token
}

func (m *wav2vec2) Close() error { return m.session.Close() }

func (m *wav2vec2) recognize(ctx context.Context, samples []float32) ([]SpokenToken, error) {
	x := slices.Clone(samples)
	if m.normalize {
		normalizeSamples(x)
	}
	feed := onward.Values{}
	var err error
	for _, in := range m.session.Inputs() {
		switch in.Name {
		case "input_values":
			feed[in.Name], err = asInput(in, x, 1, len(x))
		case "attention_mask":
			feed[in.Name], err = asInput(in, slices.Repeat([]int64{1}, len(x)), 1, len(x))
		default:
			err = fmt.Errorf("the model has the input %s, want input_values and attention_mask alone", in)
		}
		if err != nil {
			return nil, err
		}
	}
	return m.vocab.classify(ctx, m.session, feed, math.MaxInt, m.step)
}

func (m *wav2vec2) text(tokens []SpokenToken) string {
	s := strings.TrimSpace(concat(tokens))
	if m.lower {
		s = strings.ToLower(s)
	}
	return s
}

// normalizeSamples makes the mean 0 and the variance 1.
func normalizeSamples(x []float32) {
	sum, squares := 0.0, 0.0
	for _, v := range x {
		sum += float64(v)
	}
	mean := sum / float64(len(x))
	for _, v := range x {
		squares += (float64(v) - mean) * (float64(v) - mean)
	}
	scale := 1 / math.Sqrt(squares/float64(len(x))+1e-7)
	for i, v := range x {
		x[i] = float32((float64(v) - mean) * scale)
	}
}

// classify runs a model whose first output has the scores of tokens, and returns the best token of
// each of at most limit steps, without repeats and blanks.
func (v *speechVocabulary) classify(ctx context.Context, s *onward.Session, feed onward.Values, limit int,
	step time.Duration) ([]SpokenToken, error) {
	out, err := s.Run(ctx, feed, nil)
	if err != nil {
		return nil, err
	}
	scores, ok := out[s.Outputs()[0].Name].(*tensor.Tensor)
	if !ok || scores.Rank() != 3 || scores.Dim(0) != 1 || scores.Dim(2) < 1 {
		return nil, fmt.Errorf("the model has the outputs %v, want [1,steps,tokens]", s.Outputs())
	}
	data, err := asFloats(scores)
	if err != nil {
		return nil, err
	}
	var found []SpokenToken
	last := v.blank
	for i := range min(scores.Dim(1), limit) {
		best := argmax(data[i*scores.Dim(2):][:scores.Dim(2)])
		if best != last && best != v.blank {
			token, err := v.spoken(best, time.Duration(i)*step)
			if err != nil {
				return nil, err
			}
			found = append(found, token)
		}
		last = best
	}
	return found, nil
}

// nemoCTC is a model of connectionist temporal classification of NeMo.
type nemoCTC struct {
	session *onward.Session
	nemoConfig
}

func openNeMoCTC(ctx context.Context, f *folder) (*nemoCTC, error) {
	m := &nemoCTC{}
	if err := m.read(f); err != nil {
		return nil, err
	}
	var err error
	if m.session, err = f.speechSession(ctx, "model", false); err != nil {
		return nil, err
	}
	if in := m.session.Inputs(); len(in) != 2 || in[0].Name != "audio_signal" || in[1].Name != "length" {
		err := fmt.Errorf("the model has the inputs %v, want audio_signal and length, as NeMo has them", in)
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (m *nemoCTC) Close() error { return m.session.Close() }

func (m *nemoCTC) recognize(ctx context.Context, samples []float32) ([]SpokenToken, error) {
	x, n, err := preprocess.NeMoFbank(samples, m.bands)
	if err != nil || n == 0 {
		return nil, err
	}
	feed := onward.Values{"audio_signal": x, "length": tensor.Must(tensor.New([]int64{int64(n)}, 1))}
	return m.vocab.classify(ctx, m.session, feed, (n-1)/m.subsampling+1, m.step())
}
