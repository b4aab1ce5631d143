package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/onward-ml/onward"
)

// WakeWordOptions are the options of [OpenWakeWord].
type WakeWordOptions struct {
	Options
	// Words names the ONNX files of the words in the folder. Default: all but melspectrogram.onnx,
	// embedding_model.onnx and silero_vad.onnx.
	Words []string
}

// WakeWord listens for words by the models of openWakeWord
// (https://github.com/dscripka/openWakeWord). It is safe for use by several goroutines, each of
// which has its own streams.
type WakeWord struct {
	mel, embedding *onward.Session
	words          []wakeModel
}

// wakeModel is the model of a word, or of several.
type wakeModel struct {
	session *onward.Session
	frames  int            // of features that it sees
	labels  map[int]string // by class
}

// The files of openWakeWord's models that all words share.
const (
	wakeMel       = "melspectrogram.onnx"
	wakeEmbedding = "embedding_model.onnx"
)

// The sizes of openWakeWord's models, in samples at 16 kHz, frames and numbers.
const (
	wakeStep     = 1280 // samples between scores
	wakeBefore   = 480  // samples before them that the spectrogram sees
	melBands     = 32
	melFrames    = 76 // that an embedding sees
	wakeFeatures = 96 // of an embedding
	wakeSilent   = 5  // first scores, which are 0
)

// OpenWakeWord opens a folder with melspectrogram.onnx, embedding_model.onnx and the models of
// words. opts may be nil.
func OpenWakeWord(ctx context.Context, dir string, opts *WakeWordOptions) (*WakeWord, error) {
	var o WakeWordOptions
	if opts != nil {
		o = *opts
	}
	f, err := openFolder(dir, &o.Options)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	w := &WakeWord{}
	if err := w.open(ctx, f, o.Words); err != nil {
		return nil, errors.Join(f.wrap(err), w.Close())
	}
	return w, nil
}

func (w *WakeWord) open(ctx context.Context, f *folder, words []string) (err error) {
	if w.mel, err = f.openSession(ctx, wakeMel); err != nil {
		return err
	}
	if w.embedding, err = f.openSession(ctx, wakeEmbedding); err != nil {
		return err
	}
	if len(words) == 0 {
		list, err := fs.Glob(f.fs, "*.onnx")
		if err != nil {
			return err
		}
		words = slices.DeleteFunc(list, func(n string) bool {
			return n == wakeMel || n == wakeEmbedding || n == "silero_vad.onnx"
		})
	}
	if len(words) == 0 {
		return errors.New("there is no model of a word")
	}
	for _, name := range words {
		s, err := f.openSession(ctx, name)
		if err != nil {
			return err
		}
		m := wakeModel{session: s}
		w.words = append(w.words, m)
		in, out := s.Inputs(), s.Outputs()
		if len(in) != 1 || len(in[0].Shape) != 3 || in[0].Shape[2].Value != wakeFeatures || in[0].Shape[1].Value < 1 ||
			in[0].Shape[1].Value > 1000 || len(out) != 1 || len(out[0].Shape) != 2 || out[0].Shape[1].Value < 1 {
			return fmt.Errorf("%s has the inputs %v and outputs %v, want [1,frames,%d] and [1,classes]", name, in, out,
				wakeFeatures)
		}
		m.frames = int(in[0].Shape[1].Value)
		m.labels = wakeLabels(strings.TrimSuffix(name, ".onnx"), out[0].Name, int(out[0].Shape[1].Value))
		w.words[len(w.words)-1] = m
	}
	return nil
}

// wakeLabels returns the labels of the classes of a model. The output of a model with several is
// named by a JSON object of the labels by class.
func wakeLabels(model, output string, classes int) map[int]string {
	if classes == 1 {
		return map[int]string{0: model}
	}
	labels := map[int]string{}
	var named map[string]string
	if json.Unmarshal([]byte(output), &named) == nil {
		for key, label := range named {
			if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < classes {
				labels[i] = label
			}
		}
	}
	if len(labels) == 0 {
		for i := range classes {
			labels[i] = model + "/" + strconv.Itoa(i)
		}
	}
	return labels
}

// Close releases the sessions.
func (w *WakeWord) Close() error {
	sessions := []*onward.Session{w.mel, w.embedding}
	for _, m := range w.words {
		sessions = append(sessions, m.session)
	}
	return closeSessions(sessions...)
}

// closeSessions closes the sessions that are not nil.
func closeSessions(sessions ...*onward.Session) error {
	var errs []error
	for _, s := range sessions {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}

// WakeScores are the scores of words at a moment of a stream.
type WakeScores struct {
	Sample int                // position in the stream
	Scores map[string]float32 // 0 to 1, by word: the name of its file, or the label of its class
}

// WakeStream scores sound that arrives in parts. It is for one goroutine.
type WakeStream struct {
	w       *WakeWord
	rest    []float32 // samples of the next step, as 16-bit integers
	before  []float32 // the last wakeBefore samples before them, or fewer
	mel     []float32 // the last melFrames frames
	history []float32 // of embeddings
	sample  int
	scored  int // steps, at most wakeSilent
}

// Stream returns a stream of sound at 16000 Hz.
func (w *WakeWord) Stream() *WakeStream {
	s := &WakeStream{w: w, mel: make([]float32, melFrames*melBands)}
	for i := range s.mel {
		s.mel[i] = 1
	}
	most := 0
	for _, m := range w.words {
		most = max(most, m.frames)
	}
	s.history = make([]float32, most*wakeFeatures)
	return s
}

// Write adds samples between -1 and 1, and returns the scores after every 80 ms. The scores of the
// first 400 ms are 0.
func (s *WakeStream) Write(ctx context.Context, samples []float32) ([]WakeScores, error) {
	for _, v := range samples {
		s.rest = append(s.rest, min(max(float32(math.RoundToEven(float64(v)*(1<<15))), -1<<15), 1<<15-1))
	}
	var found []WakeScores
	rest := s.rest
	defer func() { s.rest = slices.Clone(rest) }()
	for ; len(rest) >= wakeStep; rest = rest[wakeStep:] {
		scores, err := s.step(ctx, rest[:wakeStep])
		if err != nil {
			return found, err
		}
		found = append(found, WakeScores{s.sample, scores})
	}
	return found, nil
}

// step scores the next wakeStep samples.
func (s *WakeStream) step(ctx context.Context, samples []float32) (map[string]float32, error) {
	x := append(s.before, samples...)
	mel, _, err := runFloat(ctx, s.w.mel, s.w.mel.Inputs()[0].Name, x, 1, len(x))
	if err != nil {
		return nil, err
	}
	if len(mel)%melBands != 0 {
		return nil, fmt.Errorf("wake word: the spectrogram has %d numbers, want frames of %d", len(mel), melBands)
	}
	s.before = slices.Clone(x[len(x)-wakeBefore:])
	s.sample += wakeStep
	for i, v := range mel {
		mel[i] = v/10 + 2
	}
	s.mel = last(append(s.mel, mel...), melFrames*melBands)
	e, _, err := runFloat(ctx, s.w.embedding, s.w.embedding.Inputs()[0].Name, s.mel, 1, melFrames, melBands, 1)
	if err != nil {
		return nil, err
	}
	if len(e) != wakeFeatures {
		return nil, fmt.Errorf("wake word: the embedding has %d numbers, want %d", len(e), wakeFeatures)
	}
	s.history = last(append(s.history, e...), len(s.history))
	scores := map[string]float32{}
	for _, m := range s.w.words {
		y, _, err := runFloat(ctx, m.session, m.session.Inputs()[0].Name, last(s.history, m.frames*wakeFeatures), 1,
			m.frames, wakeFeatures)
		if err != nil {
			return nil, err
		}
		for i, label := range m.labels {
			if i >= len(y) {
				return nil, fmt.Errorf("wake word: a model returned %d scores, want more than %d", len(y), i)
			}
			scores[label] = y[i]
			if s.scored < wakeSilent {
				scores[label] = 0
			}
		}
	}
	s.scored = min(s.scored+1, wakeSilent)
	return scores, nil
}

// last returns the last n elements, in memory of their own.
func last(x []float32, n int) []float32 { return slices.Clone(x[len(x)-n:]) }
