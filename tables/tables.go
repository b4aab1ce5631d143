// Package tables scores the rows of a table with a model: columns are bound to the inputs
// of a session, batches of rows are run, and the outputs become further columns.
//
// A [Scorer] scores record batches of Apache Arrow. A [Job] reads a table from files or from
// a stream, scores it and writes the result.
package tables

import (
	"context"
	"fmt"
	"strings"

	"github.com/onward-ml/onward"
)

// OnError selects how a row that cannot be scored is handled: one with a null or a value
// of a wrong type in a bound column, or for which the model fails.
type OnError string

const (
	Fail OnError = "fail" // stop with an error that names the row
	Null OnError = "null" // keep the row with null outputs and the reason in the error column
	Skip OnError = "skip" // leave the row out
)

// ErrorColumn is the default name of the column with the reasons for null outputs.
const ErrorColumn = "error"

// Model computes outputs for rows. It is an *onward.Session or a [TextModel].
type Model interface {
	Inputs() []onward.NodeArg
	OverridableInitializers() []onward.NodeArg
	Outputs() []onward.NodeArg
	Run(context.Context, onward.Values, *onward.RunOptions) (onward.Values, error)
	Provider() string
}

// A Binding binds columns to an input of the model.
type Binding struct {
	Input   string
	Columns []string // several numeric columns make one input of shape [rows, columns]
}

// ParseBinding parses "input=column,column".
func ParseBinding(s string) (Binding, error) {
	input, columns, ok := strings.Cut(s, "=")
	if !ok || input == "" || columns == "" {
		return Binding{}, fmt.Errorf("binding is %q, want input=column or input=column,column", s)
	}
	return Binding{input, strings.Split(columns, ",")}, nil
}

// Options configure a Scorer. The zero value and nil select the defaults.
type Options struct {
	// Bind binds columns to inputs. Inputs that it does not name are bound to the column of
	// their name.
	Bind []Binding
	// Batch is the number of rows per run. Default: 4096, or fewer so that the inputs of a
	// run take at most 32 MiB. The model's own batch size takes precedence if it is fixed.
	Batch int
	// OnError selects how rows that cannot be scored are handled. Default: Fail.
	OnError OnError
	// Keep names the columns to copy to the result. Default: nil, all columns.
	Keep []string
	// Outputs names the outputs of the model to add as columns. Default: all.
	Outputs []string
	// Prefix precedes the names of the outputs in the names of their columns.
	Prefix string
	// ErrorColumn is the name of the column with the reasons if OnError is Null. Default:
	// [ErrorColumn].
	ErrorColumn string
	// Images is the folder of the images that string columns name. Default: "",
	// images come from binary columns only. Names outside the folder are rejected.
	Images string
}

// Counts holds the numbers of rows, scored and not.
type Counts struct {
	Rows    int64 `json:"rows"`    // read
	Scored  int64 `json:"scored"`  // with outputs
	Nulled  int64 `json:"nulled"`  // kept with null outputs
	Skipped int64 `json:"skipped"` // left out
}

func (c *Counts) add(d Counts) {
	c.Rows += d.Rows
	c.Scored += d.Scored
	c.Nulled += d.Nulled
	c.Skipped += d.Skipped
}

// A RowError is the reason why a row cannot be scored.
type RowError struct {
	Row    int64  // position of the row, from 0
	Where  string // the table and the row as a user counts them; empty in errors of a Scorer
	Reason string
}

// Error implements error.
func (e *RowError) Error() string {
	if e.Where == "" {
		return fmt.Sprintf("row %d: %s", e.Row+1, e.Reason)
	}
	return e.Where + ": " + e.Reason
}

const (
	defaultBatch = 4096
	batchBytes   = 32 << 20 // of the inputs of a run, for the default batch, and of its rows
)

func names(args []onward.NodeArg) string {
	s := make([]string, len(args))
	for i, a := range args {
		s[i] = a.Name
	}
	return strings.Join(s, ", ")
}
