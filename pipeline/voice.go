package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/tensor"
)

// VoiceOptions are the options of [OpenVoiceDetector]. The defaults are those of Python's
// silero_vad.
type VoiceOptions struct {
	// Session configures the session of the model.
	Session *onward.SessionOptions
	// Threshold is the least probability of speech. Default: 0.5.
	Threshold float64
	// NegThreshold is the probability below which speech ends. Default: Threshold − 0.15, at least
	// 0.01.
	NegThreshold float64
	// MinSpeech is the length that speech must exceed. Default: 250 ms. Negative: none.
	MinSpeech time.Duration
	// MaxSpeech is the length beyond which speech is divided: at the longest silence of more than
	// 98 ms within it, else at that length. Default: unlimited.
	MaxSpeech time.Duration
	// MinSilence is the length of silence that ends speech. Default: 100 ms. Negative: none.
	MinSilence time.Duration
	// Pad is what a segment is longer than its speech at each side. Default: 30 ms. Negative: none.
	Pad time.Duration
}

// VoiceDetector finds speech in sound by a model of Silero VAD, version 4 to 6
// (https://github.com/snakers4/silero-vad). It is safe for use by several goroutines.
type VoiceDetector struct {
	session *onward.Session
	opts    VoiceOptions
	kind    voiceKind
	only16k bool
	hasRate bool
}

// voiceKind is the way in which a model takes samples and states.
type voiceKind int

const (
	voiceState    voiceKind = iota // version 5 and 6: samples after those before them, one state
	voiceLSTM                      // version 4: samples, two states h and c
	voiceSequence                  // version 6: many windows in one run
)

// Segment is a part of a sound: samples Start to End-1.
type Segment struct{ Start, End int }

// OpenVoiceDetector opens an ONNX file of Silero VAD, or a folder with silero_vad.onnx or with a
// single file silero_vad*.onnx. opts may be nil.
func OpenVoiceDetector(ctx context.Context, file string, opts *VoiceOptions) (*VoiceDetector, error) {
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		f, err := openFolder(file, nil)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		name, err := f.model("silero_vad", "")
		if err != nil {
			return nil, f.wrap(err)
		}
		file = filepath.Join(file, filepath.FromSlash(name))
	}
	v := &VoiceDetector{only16k: strings.Contains(filepath.Base(file), "16k")}
	if opts != nil {
		v.opts = *opts
	}
	orElse := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
		*v = max(*v, 0)
	}
	orElse(&v.opts.MinSpeech, 250*time.Millisecond)
	orElse(&v.opts.MinSilence, 100*time.Millisecond)
	orElse(&v.opts.Pad, 30*time.Millisecond)
	if v.opts.Threshold == 0 {
		v.opts.Threshold = 0.5
	}
	if v.opts.NegThreshold == 0 {
		v.opts.NegThreshold = max(v.opts.Threshold-0.15, 0.01)
	}
	s, err := onward.Open(ctx, file, v.opts.Session)
	if err != nil {
		return nil, err
	}
	inputs, outputs := map[string]onward.NodeArg{}, map[string]bool{}
	for _, a := range s.Inputs() {
		inputs[a.Name] = a
	}
	for _, a := range s.Outputs() {
		outputs[a.Name] = true
	}
	has := func(names ...string) bool {
		for _, n := range names {
			if _, ok := inputs[n]; !ok && !outputs[n] {
				return false
			}
		}
		return true
	}
	_, v.hasRate = inputs["sr"]
	switch {
	case has("input", "h", "c", "speech_probs", "hn", "cn"):
		v.kind = voiceSequence
	case has("input", "h", "c", "output", "hn", "cn"):
		v.kind = voiceLSTM
	case has("input", "state", "output", "stateN"):
		v.kind = voiceState
	default:
		err := fmt.Errorf("voice detector: %s has the inputs %v, which are those of no known version of Silero VAD",
			file, s.Inputs())
		return nil, errors.Join(err, s.Close())
	}
	v.only16k = v.only16k || !v.hasRate
	v.session = s
	return v, nil
}

// Close releases the session.
func (v *VoiceDetector) Close() error { return v.session.Close() }

// window returns the number of samples of a window, and how many of those before it the model
// sees, for sound of a rate.
func (v *VoiceDetector) window(rate int) (size, before int) {
	size, before = 512, 64
	if rate == 8000 {
		size, before = 256, 32
	}
	if v.kind == voiceLSTM {
		before = 0
	}
	return size, before
}

// rate returns the rate that the model sees, and the distance of the samples that it sees.
func (v *VoiceDetector) rate(rate int) (int, int, error) {
	if rate > 16000 && rate%16000 == 0 {
		return 16000, rate / 16000, nil
	}
	if rate != 16000 && (rate != 8000 || v.only16k) {
		return 0, 0, fmt.Errorf("voice detector: the rate is %d Hz, want 16000, a multiple of it%s; "+
			"preprocess.Resample converts", rate, map[bool]string{false: ", or 8000"}[v.only16k])
	}
	return rate, 1, nil
}

// Detect returns the segments of speech in samples between -1 and 1 of one channel. The rate is
// 16000 Hz, a multiple of it, of which samples are dropped, or, with most models, 8000 Hz. Segments
// equal those of get_speech_timestamps in Python.
func (v *VoiceDetector) Detect(ctx context.Context, samples []float32, rate int) ([]Segment, error) {
	rate, step, err := v.rate(rate)
	if err != nil {
		return nil, err
	}
	if step > 1 {
		kept := make([]float32, 0, (len(samples)+step-1)/step)
		for i := 0; i < len(samples); i += step {
			kept = append(kept, samples[i])
		}
		samples = kept
	}
	run := v.start(rate)
	size, _ := v.window(rate)
	probs := make([]float32, 0, len(samples)/size+1)
	for len(probs)*size < len(samples) {
		if probs, err = run.next(ctx, samples, probs); err != nil {
			return nil, err
		}
	}
	segments := v.segments(probs, len(samples), rate)
	for i := range segments {
		segments[i].Start *= step
		segments[i].End *= step
	}
	return segments, nil
}

// voiceRun holds what a model remembers of a sound.
type voiceRun struct {
	v      *VoiceDetector
	rate   int
	states onward.Values // by input
	sr     *tensor.Tensor
}

func (v *VoiceDetector) start(rate int) *voiceRun {
	shapes := map[string][]int{"state": {2, 1, 128}}
	switch v.kind {
	case voiceLSTM:
		shapes = map[string][]int{"h": {2, 1, 64}, "c": {2, 1, 64}}
	case voiceSequence:
		shapes = map[string][]int{"h": {1, 1, 128}, "c": {1, 1, 128}}
	}
	r := &voiceRun{v, rate, onward.Values{}, must(tensor.New([]int64{int64(rate)}))}
	for name, shape := range shapes {
		r.states[name] = must(tensor.Zeros(tensor.TypeFloat32, shape...))
	}
	return r
}

// must returns a tensor whose shape is known to fit.
func must(t *tensor.Tensor, err error) *tensor.Tensor {
	if err != nil {
		panic(err)
	}
	return t
}

// sequenceWindows is the number of windows that one run of a sequence model gets.
const sequenceWindows = 512

// next appends the probabilities of speech of the next windows of samples, of which those of probs
// are done.
func (r *voiceRun) next(ctx context.Context, samples, probs []float32) ([]float32, error) {
	size, before := r.v.window(r.rate)
	first, n := len(probs), 1
	if r.v.kind == voiceSequence {
		n = min(sequenceWindows, (len(samples)-first*size+size-1)/size)
	}
	x := make([]float32, n*(before+size))
	for i := range n {
		to, from := x[i*(before+size):(i+1)*(before+size)], (first+i)*size-before
		if from < 0 {
			to, from = to[-from:], 0
		}
		copy(to, samples[from:])
	}
	y, err := r.probabilities(ctx, x, n)
	return append(probs, y...), err
}

// probabilities returns the probabilities of speech of n windows, which follow the last ones.
func (r *voiceRun) probabilities(ctx context.Context, x []float32, n int) ([]float32, error) {
	output := "output"
	if r.v.kind == voiceSequence {
		output = "speech_probs"
	}
	feed := onward.Values{"input": must(tensor.New(x, n, len(x)/n))}
	if r.v.hasRate {
		feed["sr"] = r.sr
	}
	for name, state := range r.states {
		feed[name] = state
	}
	out, err := r.v.session.Run(ctx, feed, &onward.RunOptions{Serial: n == 1})
	if err != nil {
		return nil, err
	}
	for name := range r.states {
		next := name + "n"
		if name == "state" {
			next = "stateN"
		}
		r.states[name] = out[next]
	}
	y, err := tensor.Data[float32](out[output])
	if err == nil && len(y) != n {
		err = fmt.Errorf("voice detector: the model returned %d probabilities, want %d", len(y), n)
	}
	return y, err
}

// samplesOf returns a time in samples.
func samplesOf(d time.Duration, rate int) float64 {
	return float64(rate) * (float64(d) / float64(time.Millisecond)) / 1000
}

// segments returns the segments of speech of the probabilities of windows.
func (v *VoiceDetector) segments(probs []float32, length, rate int) []Segment {
	size, _ := v.window(rate)
	pad := samplesOf(v.opts.Pad, rate)
	shortest, silence := samplesOf(v.opts.MinSpeech, rate), samplesOf(v.opts.MinSilence, rate)
	longest, pause := math.Inf(1), samplesOf(98*time.Millisecond, rate)
	if v.opts.MaxSpeech > 0 {
		longest = samplesOf(v.opts.MaxSpeech, rate) - float64(size) - 2*pad
	}
	var found, pauses []Segment
	start, end := -1, 0 // of the speech that has begun; end is 0 while it lasts
	inSpeech := false
	for i, p := range probs {
		at, p := i*size, float64(p)
		if p >= v.opts.Threshold && end != 0 {
			if float64(at-end) > pause {
				pauses = append(pauses, Segment{end, at})
			}
			end = 0
		}
		if p >= v.opts.Threshold && !inSpeech {
			inSpeech, start = true, at
			continue
		}
		if inSpeech && float64(at-start) > longest {
			if len(pauses) == 0 {
				found = append(found, Segment{start, at})
				inSpeech, start, end = false, -1, 0
				continue
			}
			cut := pauses[0]
			for _, s := range pauses {
				if s.End-s.Start > cut.End-cut.Start {
					cut = s
				}
			}
			found = append(found, Segment{start, cut.Start})
			start, end, pauses = cut.End, 0, nil
		}
		if p < v.opts.NegThreshold && inSpeech {
			if end == 0 {
				end = at
			}
			if float64(at-end) < silence {
				continue
			}
			if float64(end-start) > shortest {
				found = append(found, Segment{start, end})
			}
			inSpeech, start, end, pauses = false, -1, 0, nil
		}
	}
	if start >= 0 && float64(length-start) > shortest {
		found = append(found, Segment{start, length})
	}
	return padded(found, pad, length)
}

// padded makes segments longer at each side, at most to the middle of the silence between them.
func padded(s []Segment, pad float64, length int) []Segment {
	for i := range s {
		if i == 0 {
			s[i].Start = int(max(0, float64(s[i].Start)-pad))
		}
		if i == len(s)-1 {
			s[i].End = int(min(float64(length), float64(s[i].End)+pad))
			break
		}
		if gap := s[i+1].Start - s[i].End; float64(gap) < 2*pad {
			half := int(math.Floor(float64(gap) / 2))
			s[i].End += half
			s[i+1].Start = max(0, s[i+1].Start-half)
		} else {
			s[i].End = int(min(float64(length), float64(s[i].End)+pad))
			s[i+1].Start = int(max(0, float64(s[i+1].Start)-pad))
		}
	}
	return s
}

// VoiceEvent is the begin or the end of speech in a stream.
type VoiceEvent struct {
	Begin  bool
	Sample int // position in the stream
}

// VoiceStream finds speech in sound that arrives in parts, as VADIterator does in Python: MinSpeech
// and MaxSpeech do not apply, and speech ends at Threshold − 0.15. It is for one goroutine.
type VoiceStream struct {
	run      *voiceRun
	before   []float32 // samples that the next window of the model begins with
	rest     []float32 // samples of the next window
	inSpeech bool
	at, end  int // samples that are done; where speech may have ended, or 0
}

// Stream returns a stream of sound with a rate of 16000 Hz or, with most models, 8000 Hz.
func (v *VoiceDetector) Stream(rate int) (*VoiceStream, error) {
	seen, step, err := v.rate(rate)
	if err == nil && step != 1 {
		err = fmt.Errorf("voice detector: a stream has a rate of %d Hz, want 16000 or 8000", rate)
	}
	if err != nil {
		return nil, err
	}
	_, before := v.window(seen)
	return &VoiceStream{run: v.start(seen), before: make([]float32, before)}, nil
}

// Write adds samples between -1 and 1, and returns what became certain.
func (s *VoiceStream) Write(ctx context.Context, samples []float32) ([]VoiceEvent, error) {
	size, before := s.run.v.window(s.run.rate)
	s.rest = append(s.rest, samples...)
	var events []VoiceEvent
	for len(s.rest) >= size {
		p, err := s.run.probabilities(ctx, append(s.before, s.rest[:size]...), 1)
		if err != nil {
			return events, err
		}
		s.before = append([]float32(nil), s.rest[size-before:size]...)
		s.rest = s.rest[size:]
		if e, ok := s.step(float64(p[0]), size); ok {
			events = append(events, e)
		}
	}
	return events, nil
}

// step continues with the probability of the next window.
func (s *VoiceStream) step(p float64, size int) (e VoiceEvent, ok bool) {
	o := &s.run.v.opts
	pad, silence := samplesOf(o.Pad, s.run.rate), samplesOf(o.MinSilence, s.run.rate)
	s.at += size
	if p >= o.Threshold {
		s.end = 0
		if !s.inSpeech {
			s.inSpeech = true
			return VoiceEvent{true, int(max(0, float64(s.at-size)-pad))}, true
		}
	}
	if p < o.Threshold-0.15 && s.inSpeech {
		if s.end == 0 {
			s.end = s.at
		}
		if float64(s.at-s.end) >= silence {
			e = VoiceEvent{false, int(float64(s.end-size) + pad)}
			s.end, s.inSpeech = 0, false
			return e, true
		}
	}
	return e, false
}
