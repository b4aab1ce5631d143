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

This page lists the conditions under which results differ from those of ONNX Runtime by more than rounding. It is written by
` + "`make generate`" + ` from the list in internal/testing/opfuzz; a test keeps it current.

` + "`go test ./provider/ort -run TestRandomOperatorsAgree -v`" + ` runs random cases of every operator, over its versions, types,
attributes and shapes, on ` + "`reference`, `cpu`" + ` and ONNX Runtime 1.30. It fails if results differ under other conditions.
` + "`TestDifferencesOccur`" + ` runs cases under each condition, fails if all results agree, and logs how many do.
The third column is "ours" if Onward follows the specification and ONNX Runtime does not, and "open" if the specification
does not define the result.

| operators | condition | right | why |
|---|---|---|---|
`)
	for _, d := range opfuzz.Differences {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", strings.Join(d.Ops, ", "), d.What, d.Who, d.Why)
	}
	b.WriteString(`
Different rounding does not count as a difference. The tolerances are in internal/testing/opfuzz: 0 for operators that move
elements or that IEEE 754 and integers define, one step for quantized results, and for others a relative tolerance per
element and per tensor that depends on the type.

com.microsoft.MatMulNBits with accuracy_level 4 permits to quantize A to 8 bits. ONNX Runtime and ` + "`cpu`" + ` do, in blocks along K, and
` + "`reference`" + ` does not. An element of the result then differs by at most the sum over the blocks of max|A| / 254 · Σ|w|. The
error grows with the largest activation of a block, not with the result.

Optimizations remove nodes whose outputs nothing uses, nodes of whose outputs only a known shape is used, and nodes that
cancel out, as two Transposes may. An error that such a node would return then does not occur, such as that of a Split whose
sizes do not add up. Shapes with negative sizes are always refused. The level "none" keeps all nodes, and so does the provider ` + "`reference`" + `:
both accept the same of the suite's models with other shapes and sizes (` + "`TestEnginesAcceptTheSameShapes`" + `).

BatchNormalization in training mode may use the running mean also as bias, or the running variance also as scale, as some
exporters write it. ONNX Runtime writes the new mean and variance over their inputs first, and then uses them as bias and scale.

Onward runs some models that ONNX Runtime refuses: operators and types for which it has no kernel, signed integers of BitShift,
scalars as K of TopK and as value of ConstantOfShape, booleans in ReduceMax and ReduceMin of every opset, Mod of floating-point
numbers with fmod = 0 before opset 28, Pad that reflects an axis of one element, Resize to a size of 0, and intermediate values
whose declared type is wrong.

Files of other projects: 29 public repositories, among them libonnx (e6129dab), burn-onnx (7db1e206), onnx2c (ea045cc1), tract
(38b383fb), Deeploy (bf64cfae), deepC (064a7cc) and Marabou (def57140), have 3,270 models. On 2,755 of them ` + "`cpu`" + `,
` + "`reference`" + ` and ONNX Runtime 1.32 agree, with the files' own inputs or drawn ones. 14 draw random numbers. 9 differ as
this page says: LSTM with clip (3), align_corners (2), running statistics (2), MaxUnpool and NaN in ArgMax. 297 run on Onward only, and about 110 of
these because the Python API of ONNX Runtime cannot pass inputs of their types. 192 run on neither: models without their external data, with operators of other libraries, or whose drawn inputs do not fit.
ONNX Runtime alone runs 3: two use StringECMARegexReplace, one has drawn regions outside of the images. ONNX Runtime opens
and runs the results of ` + "`onward optimize`" + ` and ` + "`onward quantize`" + `. libonnx's
copy of ONNX's backend suite has 30 models whose definition or results ONNX has changed since: results differ from the copy's for 27, as
those of ONNX Runtime do, and both refuse three of RotaryEmbedding.
` + "`go run ./internal/testing/modelfiles FOLDER`" + ` runs such files on both engines.

The tests of TVM's importer (5d4dc872) build 482 models that ONNX Runtime 1.32 runs. ` + "`cpu` and `reference`" + ` agree with it on 475, with the
tests' inputs. Seven differ as this page says: ReduceMean of an empty input (3), NonZero of a scalar, Clip with a bound of NaN,
tf_crop_and_resize, and SplitToSequence. 45 more test what fails: ONNX Runtime refuses them or their inputs, or its Python API cannot
pass them. Onward runs 14 of these.

The tests of sklearn-onnx (33c9f268) build 1,515 models that ONNX Runtime 1.32 runs. 1,513 were compared with the tests' inputs, and
1,508 agree. Four differ by rounding: two SVMs whose sums of products cancel (Onward's results equal those of float64), and two
with a tree whose threshold equals a feature up to the last bit. One has a sparse Constant whose indices are not in ascending order, which Onward refuses, like ONNX's checker.

AMDMIGraphX (f729a52f) has 1,143 models for its parser, many of them invalid on purpose. ` + "`cpu`, `reference`" + ` and ONNX Runtime refuse the
same ones, with 85 exceptions: 72 run on Onward only, and 13 on ONNX Runtime, each with inputs of its own. Of the 13, ten are refused because they contradict the specification of an operator,
or declare a type that a Constant does not have, two take longer than 30 s on ` + "`reference`" + `, and one repeats without end for our inputs. Of 563 that ONNX Runtime
runs, ` + "`onward compare --provider cpu,ort`" + ` finds equal results with the same drawn inputs for 540. Eight draw random numbers, ten are refused
by one of the two, two differ as this page says (align_corners, empty axes of Squeeze), one is a TopK that does not sort, and two networks of attention
differ by rounding in the softmax of large numbers (signal-to-noise ratio 100 dB).

Tensors without elements whose other dimensions have a product above 2⁴⁸ (2²⁴ on 32-bit processors) are refused, since operators loop over these dimensions.
`)
	return b.Bytes()
}
