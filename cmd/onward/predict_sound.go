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

func (o *predictOptions) transcriber(ctx context.Context, dir string) (*predictor, error) {
	r, err := pipeline.OpenSpeechRecognizer(ctx, dir, &o.text.Options)
	if err != nil {
		return nil, err
	}
	return &predictor{close: r.Close, one: true, run: eachAnswer(
		func(ctx context.Context, files []string) ([]string, error) {
			list := make([]string, len(files))
			for i, name := range files {
				samples, err := readSound(name, r.Rate())
				if err != nil {
					return nil, err
				}
				if list[i], err = r.Transcribe(ctx, samples, r.Rate()); err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
			}
			return list, nil
		}, func(file, said string) answer {
			return answer{map[string]string{"sound": file, "text": said},
				[]string{text.Name(file) + ": " + text.Name(said)}}
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
