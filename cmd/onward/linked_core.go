//go:build core

package main

import (
	"context"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/onnx"
)

// The flags of flagsLeftOut are refused before a verb runs.
const pagesLinked = false

var flagsLeftOut = []string{"html", "bisect"}

func bisect(context.Context, *compareOptions, *onnx.Model, onward.Values, runner) (*bisectJSON, error) {
	return nil, cli.NotLinked{What: "onward compare --bisect"}
}
