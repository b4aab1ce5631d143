package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/pipeline"
	"github.com/onward-ml/onward/preprocess"
)

// fewest and most are the numbers of lines that are read on a page.
var fewest, most = 1 << 30, 0

// readers returns the methods that read all pages, and the number of pages. Images are decoded
// before. The number of a result is that of its lines.
func readers(ctx context.Context, others *others) ([]*method, int, error) {
	files, err := filepath.Glob(filepath.Join(*pages, "*.png"))
	if err != nil {
		return nil, 0, err
	}
	if len(files) == 0 {
		return nil, 0, fmt.Errorf("%s has no images *.png", *pages)
	}
	var images []*preprocess.Image
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return nil, 0, err
		}
		m, err := preprocess.Decode(f, 3)
		f.Close()
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", file, err)
		}
		images = append(images, m)
	}
	folder, err := others.ask("models")
	if err != nil {
		return nil, 0, err
	}
	o := &pipeline.TextRecognizerOptions{}
	o.Session = &onward.SessionOptions{Threads: *threads}
	r, err := pipeline.OpenTextRecognizer(ctx, folder, o)
	if err != nil {
		return nil, 0, err
	}
	own := &method{name: "onward", title: "package `pipeline`", run: func(string) (took, float64, error) {
		return timed(func() (float64, error) {
			lines := 0
			for _, m := range images {
				found, err := r.Recognize(ctx, m)
				if err != nil {
					return 0, err
				}
				fewest, most = min(fewest, len(found)), max(most, len(found))
				lines += len(found)
			}
			return float64(lines), nil
		})
	}}
	return []*method{others.method("rapidocr", "rapidocr with ONNX Runtime"), own}, len(files), nil
}
