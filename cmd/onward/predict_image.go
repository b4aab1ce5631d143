//go:build !core

package main

import (
	"cmp"
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
		eachImage(r.Recognize), func(file string, lines []pipeline.TextLine) answer {
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

func (o *predictOptions) imageClassifier(ctx context.Context, dir string) (*predictor, error) {
	c, err := pipeline.OpenImageClassifier(ctx, dir, &o.text.Options)
	if err != nil {
		return nil, err
	}
	classify := eachImage(func(ctx context.Context, m *preprocess.Image) ([]pipeline.Label, error) {
		return c.Classify(ctx, m, o.top)
	})
	return &predictor{close: c.Close, one: true, run: eachAnswer(classify,
		func(file string, labels []pipeline.Label) answer {
			list, lines := labelLines(file, labels)
			return answer{map[string]any{"image": file, "labels": list}, lines}
		})}, nil
}

// objectJSON is an object in an image in the output of --json. Box has the left, upper, right and
// lower edge in pixels.
type objectJSON struct {
	Label string     `json:"label"`
	Score float32    `json:"score"`
	Box   [4]float32 `json:"box"`
}

func (o *predictOptions) detector(ctx context.Context, dir string) (*predictor, error) {
	d, err := pipeline.OpenObjectDetector(ctx, dir, &pipeline.ObjectDetectorOptions{Options: o.text.Options})
	if err != nil {
		return nil, err
	}
	return &predictor{close: d.Close, one: true, run: eachAnswer(
		eachImage(d.Detect), func(file string, objects []pipeline.Object) answer {
			a := answer{lines: []string{text.Name(file)}}
			list := []objectJSON{}
			for _, b := range objects[:min(len(objects), cmp.Or(o.top, len(objects)))] {
				list = append(list, objectJSON{b.Label, b.Score, [4]float32{b.Min.X, b.Min.Y, b.Max.X, b.Max.Y}})
				a.lines = append(a.lines, fmt.Sprintf("%8.4f  %.0f,%.0f-%.0f,%.0f  %s", b.Score, b.Min.X, b.Min.Y,
					b.Max.X, b.Max.Y, text.Name(b.Label)))
			}
			a.json = map[string]any{"image": file, "objects": list}
			return a
		})}, nil
}

// eachImage returns a function that calls run with each image file.
func eachImage[R any](run func(context.Context, *preprocess.Image) (R, error)) func(context.Context,
	[]string) ([]R, error) {
	return func(ctx context.Context, files []string) ([]R, error) {
		list := make([]R, len(files))
		for i, name := range files {
			m, err := decodeImage(name)
			if err != nil {
				return nil, err
			}
			if list[i], err = run(ctx, m); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		return list, nil
	}
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
