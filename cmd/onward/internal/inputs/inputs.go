// Package inputs makes the inputs of a run from the values of flags and from files.
package inputs

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

const (
	// MaxBytes is the largest size of an array that is read as an input.
	MaxBytes = 8 << 30
	maxText  = 1 << 28 // of a .json or .csv file
)

// parse returns the input that the VALUE of --input NAME=VALUE describes, unless it is generated.
func (o *Flags) parse(arg onward.NodeArg, value string) (tensor.Value, error) {
	if file, ok := strings.CutPrefix(value, "@"); ok {
		return Read(arg, file, &o.Image)
	}
	return parseJSON(arg, []byte(value))
}

func parseJSON(arg onward.NodeArg, text []byte) (tensor.Value, error) {
	t := arg.ElementType()
	if t.Kind == tensor.KindOptional {
		t = *t.Of
	}
	if t.Kind != tensor.KindTensor {
		return nil, fmt.Errorf("type is %s; give the value as @file.pb", arg.Type)
	}
	// Keep the literal's shape: the session reports a wrong one.
	return tensor.ParseJSON(text, t.Elem, nil)
}

// Extensions are the file names that [Read] reads, by their ends.
var Extensions = []string{".npy", ".pb", ".json", ".csv", ".png", ".jpg", ".jpeg", ".gif"}

// Read reads an input from a file. p says how images are converted; it may be nil.
func Read(arg onward.NodeArg, file string, p *Image) (tensor.Value, error) {
	ext := strings.ToLower(filepath.Ext(file))
	switch ext {
	case ".npy":
		return tensor.ReadNPYFile(file, MaxBytes)
	case ".pb":
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		return onnx.UnmarshalValue(data, onnx.NewType(arg.ElementType()), nil, nil)
	case ".json", ".csv":
		data, err := readText(file)
		if err != nil {
			return nil, err
		}
		if ext == ".csv" {
			if data, err = csvLiteral(arg, data); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
		}
		return parseJSON(arg, data)
	}
	if slices.Contains(Extensions, ext) {
		return p.read(arg, file)
	}
	return nil, cli.Usagef("file is %q, want %s", file, strings.Join(Extensions, ", "))
}

func readText(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxText+1))
	if err == nil && len(data) > maxText {
		err = fmt.Errorf("%s is larger than %d bytes; give the values as .npy", file, maxText)
	}
	return data, err
}

// csvLiteral converts rows of values to a JSON literal. A first row that has a text for a number is
// a line of column names. An input of rank 1 takes one column or one row.
func csvLiteral(arg onward.NodeArg, data []byte) ([]byte, error) {
	rows, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil {
		return nil, err
	}
	text := arg.ElementType().Elem == tensor.TypeString
	literal := func(cell string) (string, bool) {
		cell = strings.TrimSpace(cell)
		if text {
			return strconv.QuoteToASCII(strings.ToValidUTF8(cell, "\ufffd")), true
		}
		if b, err := strconv.ParseBool(cell); err == nil && arg.ElementType().Elem == tensor.TypeBool {
			return strconv.FormatBool(b), true
		}
		x, err := strconv.ParseFloat(cell, 64)
		if err == nil && (x != x || x-x != 0) { // the reader of JSON has names for them
			return strconv.Quote(strconv.FormatFloat(x, 'g', -1, 64)), true
		}
		return strings.TrimPrefix(cell, "+"), err == nil
	}
	if len(rows) > 0 && !text && slices.ContainsFunc(rows[0], func(c string) bool { _, ok := literal(c); return !ok }) {
		rows = rows[1:]
	}
	flat := len(arg.Shape) == 1
	var b bytes.Buffer
	b.WriteByte('[')
	for i, row := range rows {
		if flat && len(row) != 1 && len(rows) != 1 {
			return nil, fmt.Errorf("%d rows of %d columns, want one row or one column for an input of rank 1",
				len(rows), len(row))
		}
		if i > 0 {
			b.WriteByte(',')
		}
		if !flat {
			b.WriteByte('[')
		}
		for k, cell := range row {
			x, ok := literal(cell)
			if !ok {
				return nil, fmt.Errorf("row %d, column %d is %q, want a number", i+1, k+1, cell)
			}
			if k > 0 {
				b.WriteByte(',')
			}
			b.WriteString(x)
		}
		if !flat {
			b.WriteByte(']')
		}
	}
	b.WriteByte(']')
	return b.Bytes(), nil
}
