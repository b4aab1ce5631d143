//go:build !core

package main

import (
	"context"
	"fmt"
	"os"

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

// readSound returns the samples of a WAV or FLAC file at a rate: the mean of its channels.
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
