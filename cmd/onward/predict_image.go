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

// lineJSON is a line of text of an image in the output of --json. Box has the corners in pixels,
// clockwise from the upper left.
type lineJSON struct {
	Text  string        `json:"text"`
	Score float64       `json:"score"`
	Box   [4][2]float32 `json:"box"`
}

func (o *predictOptions) recognizer(ctx context.Context, dir string) (*predictor, error) {
	r, err := pipeline.OpenTextRecognizer(ctx, dir, &pipeline.TextRecognizerOptions{Options: o.text.Options})
	if err != nil {
		return nil, err
	}
	return &predictor{close: r.Close, one: true, run: eachAnswer(
		func(ctx context.Context, files []string) ([][]pipeline.TextLine, error) {
			list := make([][]pipeline.TextLine, len(files))
			for i, name := range files {
				m, err := decodeImage(name)
				if err != nil {
					return nil, err
				}
				if list[i], err = r.Recognize(ctx, m); err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
			}
			return list, nil
		}, func(file string, lines []pipeline.TextLine) answer {
			a := answer{lines: []string{text.Name(file)}}
			list := make([]lineJSON, len(lines))
			for i, l := range lines {
				list[i] = lineJSON{Text: l.Text, Score: l.Score}
				for k, p := range l.Box {
					list[i].Box[k] = [2]float32{p.X, p.Y}
				}
				a.lines = append(a.lines, fmt.Sprintf("%8.4f  %s", l.Score, text.Name(l.Text)))
			}
			a.json = map[string]any{"image": file, "lines": list}
			return a
		})}, nil
}

// decodeImage reads an image file with three channels.
func decodeImage(name string) (*preprocess.Image, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := preprocess.Decode(f, 3)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}
