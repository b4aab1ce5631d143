// Command photos prints the likeliest labels of image files, by a model folder as Hugging Face has
// it, such as vit-base-patch16-224. Photos that a camera has stored sideways are turned upright.
//
//	go run ./examples/photos vit-base-patch16-224 *.jpg
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/onward-ml/onward/pipeline"
	"github.com/onward-ml/onward/preprocess"
)

func main() {
	top := flag.Int("top", 3, "labels of each image")
	flag.Parse()
	if flag.NArg() < 2 {
		log.Fatal("want a model folder and image files")
	}
	if err := label(context.Background(), os.Stdout, flag.Arg(0), flag.Args()[1:], *top); err != nil {
		log.Fatal(err)
	}
}

// label writes a line for each image.
func label(ctx context.Context, w io.Writer, folder string, files []string, top int) error {
	c, err := pipeline.OpenImageClassifier(ctx, folder, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, file := range files {
		m, err := decode(file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		labels, err := c.Classify(ctx, m, top)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		fmt.Fprintf(w, "%s (%d×%d):", file, m.Width, m.Height)
		for _, l := range labels {
			fmt.Fprintf(w, " %s %.0f %%", l.Name, 100*l.Score)
		}
		fmt.Fprintln(w)
	}
	return nil
}

func decode(file string) (*preprocess.Image, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return preprocess.Decode(f, 3)
}
