package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onward-ml/onward"
)

// SpeechRecognizer transcribes speech. It is safe for use by several goroutines.
type SpeechRecognizer struct {
	model speechModel
	rate  int
}

// speechModel is a kind of model of speech.
type speechModel interface {
	// recognize returns the tokens of samples, at least one.
	recognize(ctx context.Context, samples []float32) ([]SpokenToken, error)
	// text joins tokens.
	text(tokens []SpokenToken) string
	Close() error
}

// Transcript is the text of a sound.
type Transcript struct {
	Text   string
	Tokens []SpokenToken
}

// SpokenToken is a token of a transcript.
type SpokenToken struct {
	ID    int
	Text  string        // a space in front begins a word, or a token of its own does
	Start time.Duration // of the step of the model that has the token
}

// OpenSpeechRecognizer opens a model folder. opts may be nil. The files decide its kind:
//
//   - connectionist temporal classification as transformers has it (wav2vec 2.0, HuBERT, WavLM):
//     model.onnx, preprocessor_config.json, vocab.json and tokenizer_config.json
//   - the same of NVIDIA NeMo: model.onnx and vocab.txt
//   - transducers of NeMo, with or without durations (TDT): encoder-model.onnx,
//     decoder_joint-model.onnx and vocab.txt; config.json, which NeMo does not write, has
//     features_size (default 80), subsampling_factor (default 8) and max_tokens_per_step (default
//     10)
//   - transducers of k2 and Vosk (zipformer, conformer, LSTM): encoder*.onnx, decoder*.onnx,
//     joiner*.onnx and tokens.txt, in the folder or in folders within it. The metadata of the
//     encoder say whether it streams.
//
// The likeliest token of each step is taken: there is no beam search, no language model and no
// list of favored words. Options.Variant selects files such as encoder.int8.onnx; parts that lack
// the variant are taken without it. It is "auto" for models of transformers alone.
func OpenSpeechRecognizer(ctx context.Context, dir string, opts *Options) (*SpeechRecognizer, error) {
	f, err := openFolder(dir, opts)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := &SpeechRecognizer{rate: 16000}
	kind, err := f.speechKind()
	if err != nil {
		return nil, f.wrap(err)
	}
	switch kind {
	case speechNeMo:
		r.model, err = openNeMo(ctx, f)
	case speechNeMoCTC:
		r.model, err = openNeMoCTC(ctx, f)
	case speechK2:
		r.model, err = openK2(ctx, f)
	default:
		r.model, r.rate, err = openWav2Vec2(ctx, f)
	}
	if err != nil {
		return nil, f.wrap(err)
	}
	return r, nil
}

// The kinds of folders of models of speech.
type speechKind int

const (
	speechUnknown speechKind = iota
	speechNeMo
	speechNeMoCTC
	speechK2
)

// speechKind returns the kind of a folder by its files.
func (f *folder) speechKind() (speechKind, error) {
	has := map[string]bool{}
	for _, stem := range []string{"encoder-model", "decoder_joint-model", "decoder-model", "encoder", "decoder",
		"joiner"} {
		found, err := f.speechFiles(stem, ".onnx")
		if err != nil {
			return 0, err
		}
		has[stem] = len(found) > 0
	}
	switch {
	case has["encoder-model"] && has["decoder_joint-model"]:
		return speechNeMo, nil
	case has["encoder-model"] && has["decoder-model"]:
		return 0, errors.New("an encoder with an attention decoder (Canary) is not supported")
	case has["encoder"] && has["decoder"] && has["joiner"]:
		return speechK2, nil
	}
	if !f.has("vocab.txt") || f.has("vocab.json") {
		return speechUnknown, nil
	}
	// BERT has a vocab.txt too, with a token a line.
	if v, err := f.speechVocabulary("vocab.txt"); err != nil || v.blank < 0 {
		return speechUnknown, nil
	}
	return speechNeMoCTC, nil
}

// speechFiles returns the files whose names begin with stem, which a letter or "_" does not follow,
// and end in suffix: those in the folder, or else those in folders within it.
func (f *folder) speechFiles(stem, suffix string) ([]string, error) {
	top, err := f.list(".")
	if err != nil {
		return nil, err
	}
	var found []string
	add := func(dir string, list []fs.DirEntry) {
		for _, e := range list {
			rest, begins := strings.CutPrefix(e.Name(), stem)
			rest, ends := strings.CutSuffix(rest, suffix)
			if begins && ends && (rest == "" || strings.ContainsRune("-._", rune(rest[0]))) &&
				f.has(path.Join(dir, e.Name())) {
				found = append(found, path.Join(dir, e.Name()))
			}
		}
	}
	if add(".", top); len(found) > 0 {
		return found, nil
	}
	for _, e := range top {
		if list, err := f.list(e.Name()); err == nil {
			add(e.Name(), list)
		}
	}
	return found, nil
}

// speechVariants are the variants that names of files end in.
var speechVariants = []string{"int8", "uint8", "fp16", "fp32", "quantized", "q4", "q4f16", "bnb4"}

// speechSession opens the file of a part of a model. With optional, a part that lacks the variant
// is taken without it.
func (f *folder) speechSession(ctx context.Context, stem string, optional bool) (*onward.Session, error) {
	found, err := f.speechFiles(stem, ".onnx")
	if err != nil {
		return nil, err
	}
	byVariant := map[string][]string{}
	for _, name := range found {
		variant := strings.TrimPrefix(strings.TrimSuffix(path.Base(name), ".onnx"), stem)
		variant = variant[strings.LastIndexAny(variant, "-._")+1:]
		if !slices.Contains(speechVariants, variant) {
			variant = ""
		}
		byVariant[variant] = append(byVariant[variant], name)
	}
	list := byVariant[f.opts.Variant]
	if len(list) == 0 && optional {
		list = byVariant[""]
	}
	if len(list) == 0 && f.opts.Variant == "" {
		list = found
	}
	if len(list) != 1 {
		return nil, fmt.Errorf("variant %q: want one file %s*.onnx, found %q of %q", f.opts.Variant, stem, list, found)
	}
	return f.openSession(ctx, list[0])
}

// Close releases the sessions.
func (r *SpeechRecognizer) Close() error { return r.model.Close() }

// Rate returns the number of samples a second that the model takes.
func (r *SpeechRecognizer) Rate() int { return r.rate }

// Transcribe returns the text of samples between -1 and 1 of one channel. The rate must be that of
// the model; preprocess.Resample converts.
func (r *SpeechRecognizer) Transcribe(ctx context.Context, samples []float32, rate int) (string, error) {
	t, err := r.Recognize(ctx, samples, rate)
	if err != nil {
		return "", err
	}
	return t.Text, nil
}

// Recognize returns the text of samples as Transcribe does, and its tokens.
func (r *SpeechRecognizer) Recognize(ctx context.Context, samples []float32, rate int) (*Transcript, error) {
	if rate != r.rate {
		return nil, fmt.Errorf("speech recognizer: the rate is %d Hz, want %d; preprocess.Resample converts", rate,
			r.rate)
	}
	if len(samples) == 0 {
		return &Transcript{}, nil
	}
	tokens, err := r.model.recognize(ctx, samples)
	if err != nil {
		return nil, fmt.Errorf("speech recognizer: %w", err)
	}
	return &Transcript{r.model.text(tokens), tokens}, nil
}

// SpeechStream transcribes sound that arrives in parts. It is for one goroutine.
type SpeechStream struct {
	model *k2
	state *k2Stream
}

// Stream returns a stream of sound at Rate. It is an error if the model needs the whole sound.
func (r *SpeechRecognizer) Stream() (*SpeechStream, error) {
	m, ok := r.model.(*k2)
	if !ok || m.window == 0 {
		return nil, errors.New("speech recognizer: the model does not stream: it takes a whole sound")
	}
	s, err := m.stream()
	if err != nil {
		return nil, fmt.Errorf("speech recognizer: %w", err)
	}
	return &SpeechStream{m, s}, nil
}

// Write adds samples between -1 and 1, and returns the tokens that they complete. After an error
// the stream cannot be used.
func (s *SpeechStream) Write(ctx context.Context, samples []float32) ([]SpokenToken, error) {
	n := len(s.state.found)
	err := s.model.write(ctx, s.state, samples)
	return s.state.found[n:len(s.state.found):len(s.state.found)], err
}

// Finish returns the last tokens: those of the rest and of 0.66 s of silence after it. Write must
// not follow.
func (s *SpeechStream) Finish(ctx context.Context) ([]SpokenToken, error) {
	n := len(s.state.found)
	err := s.model.finish(ctx, s.state)
	return s.state.found[n:], err
}

// Text returns the text of all tokens so far.
func (s *SpeechStream) Text() string { return s.model.text(s.state.found) }

// speechVocabulary are tokens by id.
type speechVocabulary struct {
	tokens []string
	blank  int // the id of <blk>, or -1
}

// speechVocabulary reads a file with a token and its id in each line. ▁ stands for a space.
func (f *folder) speechVocabulary(name string) (*speechVocabulary, error) {
	data, err := f.read(name, f.opts.maxFile())
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimRight(string(data), "\r\n"), "\n")
	v := &speechVocabulary{blank: -1}
	for i, line := range lines {
		line = strings.TrimRight(line, "\r")
		at := strings.LastIndexAny(line, " \t")
		id, err := strconv.Atoi(line[at+1:])
		most := len(lines) + 1000
		if err != nil || id < 0 || id >= most || at < 0 && line == "" {
			return nil, fmt.Errorf("%s: line %d is %q, want a token and its id below %d", name, i+1, line, most)
		}
		token := strings.TrimRight(line[:max(at, 0)], " \t")
		if token == "" {
			token = " "
		}
		if id >= len(v.tokens) {
			v.tokens = append(v.tokens, make([]string, id+1-len(v.tokens))...)
		}
		if v.tokens[id] != "" {
			return nil, fmt.Errorf("%s: line %d has the id %d, which is that of %q", name, i+1, id, v.tokens[id])
		}
		v.tokens[id] = strings.ReplaceAll(token, "▁", " ")
		if token == "<blk>" && v.blank < 0 { // the first, as in onnx-asr
			v.blank = id
		}
	}
	return v, nil
}

// spoken returns a token that starts at a step.
func (v *speechVocabulary) spoken(id int, start time.Duration) (SpokenToken, error) {
	if id < 0 || id >= len(v.tokens) || v.tokens[id] == "" {
		return SpokenToken{}, fmt.Errorf("the model returned token %d, which the vocabulary of %d tokens lacks", id,
			len(v.tokens))
	}
	return SpokenToken{id, v.tokens[id], start}, nil
}

// concat returns the text of tokens without what joins words.
func concat(tokens []SpokenToken) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString(t.Text)
	}
	return b.String()
}
