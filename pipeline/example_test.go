package pipeline_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"testing"

	"github.com/onward-ml/onward/internal/testing/modelfolder"
	"github.com/onward-ml/onward/pipeline"
)

var folders string // of the examples

func TestMain(m *testing.M) {
	var err error
	if folders, err = os.MkdirTemp("", "onward-"); err != nil {
		log.Fatal(err)
	}
	code := m.Run()
	os.RemoveAll(folders)
	os.Exit(code)
}

// modelFolder returns a small model folder. Programs use one of Hugging Face.
func modelFolder(task string) string {
	dir := filepath.Join(folders, task)
	if err := modelfolder.Write(dir, task); err != nil {
		log.Fatal(err)
	}
	return dir
}

func ExampleOpenEmbedder() {
	ctx := context.Background()
	emb, err := pipeline.OpenEmbedder(ctx, modelFolder("embedder"), nil) // such as "all-MiniLM-L6-v2"
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

func ExampleOpenSparseEmbedder() {
	ctx := context.Background()
	emb, err := pipeline.OpenSparseEmbedder(ctx, modelFolder("sparse"), nil) // a SPLADE model
	if err != nil {
		log.Fatal(err)
	}
	defer emb.Close()
	v, err := emb.Embed(ctx, []string{"cats", "a cat", "dog food"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.2f %.2f\n", v[0].Dot(v[1]), v[0].Dot(v[2]))
	// Output: 1.01 0.00
}

func ExampleOpenMultiVectorEmbedder() {
	ctx := context.Background()
	emb, err := pipeline.OpenMultiVectorEmbedder(ctx, modelFolder("multivector"), nil) // a ColBERT model
	if err != nil {
		log.Fatal(err)
	}
	defer emb.Close()
	query, err := emb.EmbedQueries(ctx, []string{"cats in Paris"})
	if err != nil {
		log.Fatal(err)
	}
	documents, err := emb.EmbedDocuments(ctx, []string{"the cat sits in Berlin.", "good food"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.2f %.2f\n", pipeline.MaxSim(query[0], documents[0]), pipeline.MaxSim(query[0], documents[1]))
	// Output: 3.97 3.23
}

func ExampleOpenReranker() {
	ctx := context.Background()
	r, err := pipeline.OpenReranker(ctx, modelFolder("reranker"), nil) // such as "ms-marco-MiniLM-L6-v2"
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	documents := []string{"the film is bad", "Paris is the capital of France", "Alice lives in Berlin"}
	list, err := r.Rerank(ctx, "what is the capital of France", documents)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(documents[list[0].Index])
	// Output: Paris is the capital of France
}

func ExampleOpenTextClassifier() {
	ctx := context.Background()
	c, err := pipeline.OpenTextClassifier(ctx, modelFolder("classifier"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	labels, err := c.Classify(ctx, []string{"a great film", "the food is bad"}, 1)
	if err != nil {
		log.Fatal(err)
	}
	for _, list := range labels {
		fmt.Printf("%s %.2f\n", list[0].Name, list[0].Score)
	}
	// Output:
	// POSITIVE 1.00
	// NEGATIVE 0.98
}

func ExampleOpenTokenClassifier() {
	ctx := context.Background()
	opts := &pipeline.TokenClassifierOptions{Aggregation: pipeline.AggregateSimple}
	c, err := pipeline.OpenTokenClassifier(ctx, modelFolder("tokens"), opts)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	found, err := c.Classify(ctx, []string{"Alice lives in Berlin."})
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range found[0] {
		fmt.Println(e.Label, e.Text, e.Start, e.End)
	}
	// Output:
	// PER Alice 0 5
	// LOC Berlin 15 21
}

func ExampleOpenQuestionAnswerer() {
	ctx := context.Background()
	q, err := pipeline.OpenQuestionAnswerer(ctx, modelFolder("question"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer q.Close()
	answers, err := q.Answer(ctx, "what is the capital of France?", "Bob works in Paris, the capital of France.", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answers[0].Text)
	// Output: Paris
}

func ExampleOpenZeroShotClassifier() {
	ctx := context.Background()
	c, err := pipeline.OpenZeroShotClassifier(ctx, modelFolder("nli"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	labels, err := c.Classify(ctx, []string{"politics in Berlin"}, []string{"sports", "politics", "food"},
		&pipeline.ZeroShotOptions{Template: "this text is about {}"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(labels[0][0].Name)
	// Output: politics
}

func ExampleOpenMaskFiller() {
	ctx := context.Background()
	f, err := pipeline.OpenMaskFiller(ctx, modelFolder("mask"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	fills, err := f.Fill(ctx, []string{"the capital of France is " + f.Mask()}, &pipeline.FillOptions{Top: 2})
	if err != nil {
		log.Fatal(err)
	}
	for _, x := range fills[0][0] {
		fmt.Printf("%s %.2f: %s\n", x.Token, x.Score, x.Text)
	}
	// Output:
	// paris 0.64: the capital of france is paris
	// berlin 0.23: the capital of france is berlin
}

// dot is the similarity of normalized vectors.
func dot(a, b []float32) (sum float32) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}
