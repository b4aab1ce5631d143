//go:build !core

package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/pipeline"
	"github.com/onward-ml/onward/preprocess"
)

// tokenJSON is a token of speech in the output of --json, with its start in seconds.
type tokenJSON struct {
	ID    int     `json:"id"`
	Text  string  `json:"text"`
	Start float64 `json:"start"`
}

func (o *predictOptions) transcriber(ctx context.Context, dir string) (*predictor, error) {
	r, err := pipeline.OpenSpeechRecognizer(ctx, dir, &o.text.Options)
	if err != nil {
		return nil, err
	}
	return &predictor{close: r.Close, one: true, run: eachAnswer(
		func(ctx context.Context, files []string) ([]*pipeline.Transcript, error) {
			list := make([]*pipeline.Transcript, len(files))
			for i, name := range files {
				samples, err := readSound(name, r.Rate())
				if err != nil {
					return nil, err
				}
				if list[i], err = r.Recognize(ctx, samples, r.Rate()); err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
			}
			return list, nil
		}, func(file string, said *pipeline.Transcript) answer {
			tokens := make([]tokenJSON, len(said.Tokens))
			for i, t := range said.Tokens {
				tokens[i] = tokenJSON{t.ID, t.Text, t.Start.Seconds()}
			}
			return answer{map[string]any{"sound": file, "text": said.Text, "tokens": tokens},
				[]string{text.Name(file) + ": " + text.Name(said.Text)}}
		})}, nil
}

// timesJSON is a part of a sound in the output of --json, in seconds.
type timesJSON struct {
	Start float64 `json:"start"`
	End   float64 `json:"end"`
}

func (o *predictOptions) voices(ctx context.Context, dir string) (*predictor, error) {
	v, err := pipeline.OpenVoiceDetector(ctx, dir, &pipeline.VoiceOptions{Session: o.text.Session})
	if err != nil {
		return nil, err
	}
	const rate = 16000
	return &predictor{close: v.Close, one: true, run: eachAnswer(
		func(ctx context.Context, files []string) ([][]pipeline.Segment, error) {
			list := make([][]pipeline.Segment, len(files))
			for i, name := range files {
				samples, err := readSound(name, rate)
				if err != nil {
					return nil, err
				}
				if list[i], err = v.Detect(ctx, samples, rate); err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
			}
			return list, nil
		}, func(file string, segments []pipeline.Segment) answer {
			a := answer{lines: []string{text.Name(file)}}
			list := make([]timesJSON, len(segments))
			for i, s := range segments {
				list[i] = timesJSON{float64(s.Start) / rate, float64(s.End) / rate}
				a.lines = append(a.lines, fmt.Sprintf("  %.3f-%.3f s", list[i].Start, list[i].End))
			}
			a.json = map[string]any{"sound": file, "segments": list}
			return a
		})}, nil
}

// heardJSON is a word in a sound in the output of --json: when its scores are at least
// wakeThreshold, in seconds, and the highest of them.
type heardJSON struct {
	Word  string  `json:"word"`
	Start float64 `json:"start"`
	End   float64 `json:"end"`
	Score float32 `json:"score"`
}

const wakeThreshold = 0.5

// heardWords are the words in a sound, and the highest score of each word that the models know.
type heardWords struct {
	words   []heardJSON
	highest map[string]float32
}

func (o *predictOptions) wakeWords(ctx context.Context, dir string) (*predictor, error) {
	w, err := pipeline.OpenWakeWord(ctx, dir, &pipeline.WakeWordOptions{Options: o.text.Options})
	if err != nil {
		return nil, err
	}
	return &predictor{close: w.Close, one: true, run: eachAnswer(
		func(ctx context.Context, files []string) ([]heardWords, error) {
			list := make([]heardWords, len(files))
			for i, name := range files {
				if list[i], err = hearWords(ctx, w, name); err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
			}
			return list, nil
		}, func(file string, heard heardWords) answer {
			a := answer{lines: []string{text.Name(file)}}
			for _, h := range heard.words {
				a.lines = append(a.lines, fmt.Sprintf("  %.3f-%.3f s  %.4f  %s", h.Start, h.End, h.Score,
					text.Name(h.Word)))
			}
			a.json = map[string]any{"sound": file, "words": heard.words, "highest": heard.highest}
			return a
		})}, nil
}

// hearWords scores a sound with a second of silence before and after it, as predict_clip of
// openWakeWord does.
func hearWords(ctx context.Context, w *pipeline.WakeWord, name string) (heardWords, error) {
	const rate, step = 16000, 1280
	samples, err := readSound(name, rate)
	if err != nil {
		return heardWords{}, err
	}
	silence := make([]float32, rate)
	scores, err := w.Stream().Write(ctx, slices.Concat(silence, samples, silence))
	if err != nil {
		return heardWords{}, err
	}
	heard := heardWords{[]heardJSON{}, map[string]float32{}}
	last := map[string]int{} // index in words plus 1, if the score before was high enough
	for _, s := range scores {
		end := min(max(s.Sample-rate, 0), len(samples))
		for _, word := range slices.Sorted(maps.Keys(s.Scores)) {
			score := s.Scores[word]
			heard.highest[word] = max(heard.highest[word], score)
			if score < wakeThreshold {
				last[word] = 0
				continue
			}
			if last[word] == 0 {
				heard.words = append(heard.words, heardJSON{Word: word, Start: float64(max(end-step, 0)) / rate})
				last[word] = len(heard.words)
			}
			h := &heard.words[last[word]-1]
			h.End, h.Score = float64(end)/rate, max(h.Score, score)
		}
	}
	return heard, nil
}

// readSound returns the samples of a WAV, FLAC or MP3 file at a rate: the mean of its channels.
func readSound(name string, rate int) ([]float32, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s, err := preprocess.ReadSound(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	x, err := preprocess.Resample(s.Mono(), s.Rate, rate, preprocess.Resampling{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return x, nil
}
