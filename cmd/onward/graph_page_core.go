//go:build core

package main

import (
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/onnx"
)

// writeGraphPage hands over: the page takes 220 kB of the program.
func writeGraphPage(string, string, *onnx.Model) error {
	return cli.NotLinked{What: "onward graph --html"}
}
