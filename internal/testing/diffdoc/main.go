// Command diffdoc writes docs/differences.md from what the differential tests know of
// ONNX Runtime.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/onward-ml/onward/internal/testing/opfuzz"
)

//go:generate go run . -o ../../../docs/differences.md

func main() {
	out := flag.String("o", "docs/differences.md", "the file to write")
	flag.Parse()
	if err := os.WriteFile(*out, page(), 0o644); err != nil {
		log.Fatal(err)
	}
}

// page returns the whole document.
func page() []byte {
	var b bytes.Buffer
	b.WriteString(`# Differences from ONNX Runtime

Written by ` + "`make generate`" + ` from the list in internal/testing/opfuzz; a test keeps it current.

` + "`go test ./provider/ort -run TestRandomOperatorsAgree -v`" + ` runs random cases of every operator, over its versions, types,
attributes and shapes, on ` + "`reference`, `cpu`" + ` and ONNX Runtime 1.30, and fails where results differ by more than rounding.
Under the conditions below they may. ` + "`TestDifferencesOccur`" + ` runs cases under each condition, fails if all results agree, and logs
how many do. "ours" in the third column says that ours are what the specification asks for,
"open" that it does not say.

| operators | condition | right | why |
|---|---|---|---|
`)
	for _, d := range opfuzz.Differences {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", strings.Join(d.Ops, ", "), d.What, d.Who, d.Why)
	}
	b.WriteString(`
Results of different rounding are no difference. What they may differ by is in internal/testing/opfuzz: nothing for
operators that move elements or that IEEE 754 and integers define, one step for quantized results, and for others a
part of the elements and of the largest one that grows from double to bfloat16.
`)
	return b.Bytes()
}
