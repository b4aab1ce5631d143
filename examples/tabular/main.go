// Command tabular reads rows of numbers from a CSV file and writes them with the model's
// prediction. It reads and predicts in batches, so that memory does not grow with the file.
//
//	go run ./examples/tabular < examples/tabular/testdata/flowers.csv
//	sepal_length,sepal_width,species,probability
//	5.1,3.5,setosa,0.8181
package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/tensor"
)

func main() {
	if err := predict(context.Background(), os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// The model has a fixed batch of three rows. A model with a dynamic batch allows any.
const (
	batch   = 3
	columns = 2
)

var species = []string{"setosa", "versicolor", "virginica"}

func predict(ctx context.Context, in io.Reader, out io.Writer) error {
	model, err := datasets.Get("logreg_iris.onnx")
	if err != nil {
		return err
	}
	s, err := onward.OpenBytes(ctx, model, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	r, w := csv.NewReader(in), csv.NewWriter(out)
	header, err := r.Read()
	if err != nil {
		return fmt.Errorf("header: %w", err)
	}
	if len(header) != columns {
		return fmt.Errorf("the file has %d columns, want %d: sepal length and width", len(header), columns)
	}
	w.Write(append(header, "species", "probability"))
	for last := false; !last; {
		var rows [][]string
		for len(rows) < batch {
			row, err := r.Read() // checks the number of columns
			if errors.Is(err, io.EOF) {
				last = true
				break
			}
			if err != nil {
				return err
			}
			rows = append(rows, row)
		}
		if len(rows) == 0 {
			break
		}
		results, err := run(ctx, s, rows)
		if err != nil {
			line, _ := r.FieldPos(0)
			return fmt.Errorf("up to line %d: %w", line, err)
		}
		for i, row := range rows {
			w.Write(append(row, results[i]...))
		}
	}
	w.Flush()
	return w.Error()
}

// run returns the species and its probability for at most batch rows.
func run(ctx context.Context, s *onward.Session, rows [][]string) ([][]string, error) {
	x := make([]float32, batch*columns) // rows that are missing stay zero
	for i, row := range rows {
		for j, field := range row {
			v, err := strconv.ParseFloat(field, 32)
			if err != nil {
				return nil, fmt.Errorf("row %q: %w", row, err)
			}
			x[i*columns+j] = float32(v)
		}
	}
	t, err := tensor.New(x, batch, columns)
	if err != nil {
		return nil, err
	}
	out, err := s.Run(ctx, onward.Values{"float_input": t}, nil)
	if err != nil {
		return nil, err
	}
	labels, err := tensor.Data[int64](out["output_label"])
	if err != nil {
		return nil, err
	}
	// One map from label to probability for each row.
	p, err := tensor.Maps[int64, float32](out["output_probability"])
	if err != nil {
		return nil, err
	}
	results := make([][]string, len(rows))
	for i := range rows {
		results[i] = []string{species[labels[i]], strconv.FormatFloat(float64(p[i][labels[i]]), 'f', 4, 32)}
	}
	return results, nil
}
