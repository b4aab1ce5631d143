package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/tensor"
)

// SpeechRecognizer transcribes speech by a model folder of connectionist temporal classification,
// such as wav2vec 2.0, HuBERT or WavLM. It is safe for use by several goroutines.
type SpeechRecognizer struct {
	session   *onward.Session
	rate      int
	normalize bool
	tokens    []string // by id
	blank     int
	delimiter string // of words
	lower     bool
}

// OpenSpeechRecognizer opens a model folder with preprocessor_config.json, vocab.json and
// tokenizer_config.json, as transformers has them for Wav2Vec2CTCTokenizer. opts may be nil.
func OpenSpeechRecognizer(ctx context.Context, dir string, opts *Options) (*SpeechRecognizer, error) {
	f, err := openFolder(dir, opts)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := openSpeechRecognizer(ctx, f)
	return r, f.wrap(err)
}

func openSpeechRecognizer(ctx context.Context, f *folder) (*SpeechRecognizer, error) {
	r := &SpeechRecognizer{rate: 16000, normalize: true, delimiter: "|"}
	features, err := f.processorConfig("feature_extractor")
	if err != nil {
		return nil, err
	}
	features.get("sampling_rate", &r.rate)
	features.get("do_normalize", &r.normalize)
	kind, size := "Wav2Vec2FeatureExtractor", 1
	features.get("feature_extractor_type", &kind)
	features.get("feature_size", &size)
	if kind != "Wav2Vec2FeatureExtractor" || size != 1 || r.rate < 1 {
		features.fail("feature_extractor_type", "%s with %d features at %d Hz is not supported, want "+
			"Wav2Vec2FeatureExtractor with one", kind, size, r.rate)
	}
	settings, err := f.json("tokenizer_config.json")
	if err != nil {
		return nil, err
	}
	blank := specialToken(settings, "pad_token", "<pad>")
	r.delimiter = specialToken(settings, "word_delimiter_token", "|")
	settings.get("do_lower_case", &r.lower)
	data, err := f.read("vocab.json", f.opts.maxFile())
	if err != nil {
		return nil, err
	}
	var ids map[string]int
	if err := json.Unmarshal(data, &ids); err != nil {
		return nil, fmt.Errorf("vocab.json: want ids by token: %w", err)
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
	if err := errors.Join(features.err, settings.err, added.err); err != nil {
		return nil, err
	}
	most := 0
	for token, id := range ids {
		if id < 0 || id > len(ids)+1000 {
			return nil, fmt.Errorf("vocab.json: the id of %q is %d, want 0 to %d", token, id, len(ids)+1000)
		}
		most = max(most, id)
	}
	r.tokens = make([]string, most+1)
	for token, id := range ids {
		r.tokens[id] = token
	}
	if r.blank = slices.Index(r.tokens, blank); r.blank < 0 {
		return nil, fmt.Errorf("vocab.json: there is no token %q, which is that of blanks", blank)
	}
	r.session, err = f.session(ctx, "model", func(s *onward.Session) error {
		try := *r
		try.session = s
		_, err := try.Transcribe(ctx, make([]float32, r.rate), r.rate)
		return err
	})
	return r, err
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

// Close releases the session.
func (r *SpeechRecognizer) Close() error { return r.session.Close() }

// Rate returns the number of samples a second that the model takes.
func (r *SpeechRecognizer) Rate() int { return r.rate }

// Transcribe returns the text of samples between -1 and 1 of one channel: the likeliest token of
// each step, without repeats and blanks. The rate must be that of the model; preprocess.Resample
// converts.
func (r *SpeechRecognizer) Transcribe(ctx context.Context, samples []float32, rate int) (string, error) {
	if rate != r.rate {
		return "", fmt.Errorf("speech recognizer: the rate is %d Hz, want %d; preprocess.Resample converts", rate,
			r.rate)
	}
	if len(samples) == 0 {
		return "", nil
	}
	x := slices.Clone(samples)
	if r.normalize {
		normalizeSamples(x)
	}
	feed := onward.Values{}
	var err error
	for _, in := range r.session.Inputs() {
		switch in.Name {
		case "input_values":
			feed[in.Name], err = tensor.New(x, 1, len(x))
		case "attention_mask":
			ones := make([]int64, len(x))
			for i := range ones {
				ones[i] = 1
			}
			feed[in.Name], err = tensor.New(ones, 1, len(ones))
		default:
			err = fmt.Errorf("the model has the input %s, want input_values and attention_mask alone", in)
		}
		if err != nil {
			return "", err
		}
	}
	out, err := r.session.Run(ctx, feed, nil)
	if err != nil {
		return "", err
	}
	logits, ok := out[r.session.Outputs()[0].Name].(*tensor.Tensor)
	if !ok || logits.Rank() != 3 || logits.Dim(0) != 1 || logits.Dim(2) < 1 {
		return "", fmt.Errorf("the model has the outputs %v, want [1,steps,tokens]", r.session.Outputs())
	}
	data, err := tensor.Data[float32](logits)
	if err != nil {
		return "", err
	}
	return r.decode(data, logits.Dim(2))
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

// decode returns the text of the best token of each step.
func (r *SpeechRecognizer) decode(logits []float32, n int) (string, error) {
	var text strings.Builder
	last := -1
	for step := range slices.Chunk(logits, n) {
		best := argmax(step)
		if best >= len(r.tokens) {
			return "", fmt.Errorf("the model returned token %d, beyond the %d of vocab.json", best, len(r.tokens))
		}
		if best != last && best != r.blank {
			token := r.tokens[best]
			if token == r.delimiter {
				token = " "
			}
			text.WriteString(token)
		}
		last = best
	}
	s := strings.TrimSpace(text.String())
	if r.lower {
		s = strings.ToLower(s)
	}
	return s, nil
}
