// Command embeddings ranks texts by their similarity to a query. A model turns a text into a
// vector; the cosine of the angle between two vectors is their similarity.
//
// Real embedding models come with a tokenizer, which package tokenizer reads. In this toy, words
// are hashed to rows of a table of random vectors, which the model averages and normalizes.
//
//	go run ./examples/embeddings
//	0.94  a cat on a mat
//	…
package main

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"log"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

func main() {
	texts := []string{"the cat sat on the mat", "a cat on a mat", "stocks fell sharply today", "the dog sat on the rug"}
	ranked, err := rank(context.Background(), "a cat sat on a mat", texts)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range ranked {
		fmt.Printf("%.2f  %s\n", r.similarity, r.text)
	}
}

type result struct {
	text       string
	similarity float32
}

// rank returns the texts, the most similar to the query first.
func rank(ctx context.Context, query string, texts []string) ([]result, error) {
	m, err := model()
	if err != nil {
		return nil, err
	}
	s, err := onward.OpenModel(ctx, m, nil)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	v, err := embed(ctx, s, append([]string{query}, texts...)) // all in one run
	if err != nil {
		return nil, err
	}
	r := make([]result, len(texts))
	for i, t := range texts {
		r[i] = result{t, dot(v[0], v[i+1])} // the vectors have length 1
	}
	slices.SortStableFunc(r, func(a, b result) int { return cmp.Compare(b.similarity, a.similarity) })
	return r, nil
}

// embed returns a vector for each text. Texts of a batch are padded to the longest; the mask says
// which tokens count.
func embed(ctx context.Context, s *onward.Session, texts []string) ([][]float32, error) {
	var tokens [][]int64
	longest := 1
	for _, t := range texts {
		ids := tokenize(t)
		tokens = append(tokens, ids)
		longest = max(longest, len(ids))
	}
	ids, mask := make([]int64, len(texts)*longest), make([]float32, len(texts)*longest)
	for i, t := range tokens {
		copy(ids[i*longest:], t)
		for k := range t {
			mask[i*longest+k] = 1
		}
	}
	x, err := tensor.New(ids, len(texts), longest)
	if err != nil {
		return nil, err
	}
	a, err := tensor.New(mask, len(texts), longest)
	if err != nil {
		return nil, err
	}
	out, err := s.Run(ctx, onward.Values{"input_ids": x, "attention_mask": a}, nil)
	if err != nil {
		return nil, err
	}
	flat, err := tensor.Data[float32](out["embedding"])
	if err != nil {
		return nil, err
	}
	return slices.Collect(slices.Chunk(flat, width)), nil
}

const (
	vocabulary = 4096
	width      = 64
)

func tokenize(text string) []int64 {
	var ids []int64
	for _, w := range strings.Fields(strings.ToLower(text)) {
		h := fnv.New32a()
		h.Write([]byte(w))
		ids = append(ids, int64(h.Sum32()%vocabulary))
	}
	return ids
}

func dot(a, b []float32) float32 {
	var s float32
	for i, x := range a {
		s += x * b[i]
	}
	return s
}

// model averages the rows of a table that the ids select, weighted by the mask, and divides by
// their length: the pooling of sentence-transformers.
func model() (*onnx.Model, error) {
	table := make([]float32, vocabulary*width)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range table {
		table[i] = float32(r.NormFloat64())
	}
	b := onnx.NewModel("embedding").Opset("", 21)
	b.Input("input_ids", onnx.Int64, "batch", "sequence").Input("attention_mask", onnx.Float, "batch", "sequence")
	b.Initializer("table", table, vocabulary, width)
	b.Initializer("last", []int64{-1}, 1).Initializer("one", []int64{1}, 1).Initializer("least", []float32{1e-9}, 1)
	b.Node("Gather", []string{"table", "input_ids"}, []string{"rows"})
	b.Node("Unsqueeze", []string{"attention_mask", "last"}, []string{"weights"})
	b.Node("Mul", []string{"rows", "weights"}, []string{"weighted"})
	b.Node("ReduceSum", []string{"weighted", "one"}, []string{"sum"}, onnx.Attrs{"keepdims": 0})
	b.Node("ReduceL2", []string{"sum", "last"}, []string{"norm"})
	b.Node("Max", []string{"norm", "least"}, []string{"length"}) // an empty text has length 0
	b.Node("Div", []string{"sum", "length"}, []string{"embedding"})
	b.Output("embedding", onnx.Float, "batch", width)
	return b.Model()
}
