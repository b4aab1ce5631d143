// Command search ranks the lines of standard input by their similarity to a query. The vectors are
// those of an embedding model as Hugging Face has it; with a cross-encoder, the best lines are
// ranked again.
//
//	go run ./examples/search all-MiniLM-L6-v2 "where is the station" < lines.txt
//	go run ./examples/search -reranker ms-marco-MiniLM-L6-v2 all-MiniLM-L6-v2 "where is the station" < lines.txt
package main

import (
	"bufio"
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"slices"

	"github.com/onward-ml/onward/pipeline"
)

func main() {
	reranker := flag.String("reranker", "", "folder of a cross-encoder that ranks the best lines again")
	top := flag.Int("top", 10, "lines to print")
	flag.Parse()
	if flag.NArg() != 2 {
		log.Fatal("want the folder of an embedding model and a query")
	}
	var lines []string
	for s := bufio.NewScanner(os.Stdin); s.Scan(); {
		lines = append(lines, s.Text())
	}
	if err := search(context.Background(), os.Stdout, flag.Arg(0), *reranker, flag.Arg(1), lines, *top); err != nil {
		log.Fatal(err)
	}
}

// search writes the best lines with their scores.
func search(ctx context.Context, w io.Writer, embedder, reranker, query string, lines []string, top int) error {
	emb, err := pipeline.OpenEmbedder(ctx, embedder, &pipeline.EmbedderOptions{Normalize: true})
	if err != nil {
		return err
	}
	defer emb.Close()
	q, err := emb.EmbedQueries(ctx, []string{query}) // with the prompt for queries, if the model has one
	if err != nil {
		return err
	}
	vectors, err := emb.EmbedDocuments(ctx, lines)
	if err != nil {
		return err
	}
	scores := make([]float32, len(lines))
	order := make([]int, len(lines))
	for i, v := range vectors {
		order[i] = i
		for k, x := range v {
			scores[i] += x * q[0][k] // the cosine, because the vectors have length 1
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	order = order[:min(top, len(order))]
	if reranker != "" {
		if order, err = rerank(ctx, reranker, query, lines, order, scores); err != nil {
			return err
		}
	}
	for _, i := range order {
		fmt.Fprintf(w, "%.3f  %s\n", scores[i], lines[i])
	}
	return nil
}

// rerank returns the order of a cross-encoder and stores its scores.
func rerank(ctx context.Context, folder, query string, lines []string, order []int, scores []float32) ([]int, error) {
	r, err := pipeline.OpenReranker(ctx, folder, nil)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var documents []string
	for _, i := range order {
		documents = append(documents, lines[i])
	}
	ranked, err := r.Rerank(ctx, query, documents)
	if err != nil {
		return nil, err
	}
	var again []int
	for _, d := range ranked {
		again = append(again, order[d.Index])
		scores[order[d.Index]] = d.Score
	}
	return again, nil
}
