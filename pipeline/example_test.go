package pipeline_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/onward-ml/onward/internal/testing/modelfolder"
	"github.com/onward-ml/onward/pipeline"
)

// modelFolder returns a small model folder. Programs use one of Hugging Face.
func modelFolder(task string) string {
	dir, err := os.MkdirTemp("", "onward-")
	if err == nil {
		err = modelfolder.Write(dir, task)
	}
	if err != nil {
		log.Fatal(err)
	}
	return dir
}

func ExampleOpenEmbedder() {
	ctx := context.Background()
	folder := modelFolder("embedder") // such as "all-MiniLM-L6-v2"
	defer os.RemoveAll(folder)
	emb, err := pipeline.OpenEmbedder(ctx, folder, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer emb.Close()
	v, err := emb.Embed(ctx, []string{"a cat sits on the mat", "cats", "the city of Paris"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.2f %.2f\n", dot(v[0], v[1]), dot(v[0], v[2]))
	// Output: 0.89 0.12
}

// dot is the similarity of normalized vectors.
func dot(a, b []float32) (sum float32) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}
