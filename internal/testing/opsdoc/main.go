// Command opsdoc writes docs/operators.md from the registry of operators.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"

	"github.com/onward-ml/onward/internal/ir"
	_ "github.com/onward-ml/onward/internal/ops/all" // registers the operators
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

//go:generate go run . -o ../../../docs/operators.md

func main() {
	out := flag.String("o", "docs/operators.md", "the file to write")
	flag.Parse()
	if err := os.WriteFile(*out, page(), 0o644); err != nil {
		log.Fatal(err)
	}
}

// page returns the whole document.
func page() []byte {
	var b bytes.Buffer
	all := slices.DeleteFunc(kit.All(), func(d *kit.Def) bool { return d.Domain == kit.DomainInternal })
	fmt.Fprintf(&b, "# Operators\n\nThis page is a table for looking up one operator: its versions and element "+
		"types. It is written by `make generate`\nfrom the registry; a test keeps it current.\n\n")
	fmt.Fprintf(&b, "Both engines, `cpu` and `reference`, implement all %d operators with all of their types. The "+
		"table shows the types of the\n", len(all))
	b.WriteString("newest form, which include those of older forms. Versions are the opsets in which ONNX changed " +
		"the operator. Models of all\nopsets since the first version run.\n")
	domain := "-"
	for _, d := range all {
		if d.Domain != domain {
			domain = d.Domain
			name := domain
			if name == "" {
				name = "ai.onnx"
			}
			n := 0
			for _, o := range all {
				if o.Domain == domain {
					n++
				}
			}
			fmt.Fprintf(&b, "\n## %s\n\nVersions 1 to %d, %d operators.\n\n"+
				"| operator | versions | inputs | outputs | types |\n|---|---|---|---|---|\n", name,
				kit.MaxOpset[domain], n)
		}
		s := d.Signature()
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", d.Name, versions(d), params(s.In), params(s.Out), types(s))
	}
	fmt.Fprintf(&b, "\n## Gradients\n\nGradient of ai.onnx.preview.training differentiates all operators of ai.onnx "+
		"with floating-point inputs and outputs except\n"+
		"%s. Operators of other domains have no gradient rule, except those that the engine adds itself.\n",
		strings.Join(undifferentiated(all), ", "))
	b.WriteString(missing)
	return b.Bytes()
}

// undifferentiated returns the operators of ai.onnx with floating-point numbers among
// both inputs and outputs for which there is no gradient.
func undifferentiated(all []*kit.Def) []string {
	var r []string
	for _, d := range all {
		s := d.Signature()
		if d.Domain == "" && d.Until == 0 && float(s, s.In) && float(s, s.Out) && d.Gradient == nil {
			r = append(r, d.Name)
		}
	}
	return r
}

// float reports whether one of ps may hold floating-point tensors, or anything.
func float(s *ir.Signature, ps []ir.Param) bool {
	for _, p := range ps {
		if p.Pattern == "any" || strings.Contains(p.Pattern, "float") || strings.Contains(p.Pattern, "double") {
			return true
		}
		for _, t := range s.Vars[p.Pattern] {
			if strings.Contains(t.String(), "float)") {
				return true
			}
		}
	}
	return false
}

// missing lists the operators with schemas in ONNX Runtime 1.31 that the registry does not have.
const missing = `
## Operators without CPU kernels in ONNX Runtime

ONNX Runtime 1.31 has schemas of these operators, but kernels only for GPUs and other accelerators. Neither it nor Onward runs
them on a CPU.

| operators of com.microsoft | for |
|---|---|
| BitmaskBiasDropout, BitmaskDropout, FusedMatMulActivation, GemmFloat8, MatMulNBitsMlp, MatMulNBitsQkv, NhwcFusedConv (but for float16 on arm64) | fusions of its optimizer for GPUs |
| ComplexMul, ComplexMulConj, DecoderAttention, DecoderMaskedSelfAttention, GatedDeltaNet, GatedRelativePositionBias, GemmaRotaryEmbedding, LongformerAttention, PagedAttention, RelativePositionBias, RemovePadding, RestorePadding, VarlenCausalConvWithState | transformers |
| DynamicSparseAttention, PackedSparseAttentionIndexer, SparseAttentionIndexer, SparsePagedAttention | sparse attention |
| DequantizeBFP, DequantizeWithOrder, MatMulBlockQuantizedFp4Weight, MatMulBlockQuantizedFp8Weight, QOrderedAttention, QOrderedGelu, QOrderedLayerNormalization, QOrderedLongformerAttention, QOrderedMatMul, QuantizeBFP, QuantizeWithOrder | number formats and layouts of GPUs |
| EPContext, Snpe | programs compiled for an accelerator |
| TorchEmbedding | training |

The same holds for do_rotary of Attention and for ndim above 1 of CausalConvWithState. ONNX Runtime adds the operators of
com.ms.internal.nhwc when it creates a session; no file contains them.

Not supported: strings in Col2Im, whose sum the specification does not define, past_present_share_buffer of Attention, the
global and activation scales of QMoE, and the output cross_qk of WhisperBeamSearch.
`

func versions(d *kit.Def) string {
	var v []string
	for _, n := range d.Since.List() {
		v = append(v, fmt.Sprint(n))
	}
	s := strings.Join(v, ", ")
	if d.Until != 0 {
		s += fmt.Sprintf(" (deprecated since %d: %s)", d.Until+1, d.Successor)
	}
	return s
}

func params(ps []ir.Param) string {
	var r []string
	for _, p := range ps {
		s := p.Name + ": " + p.Pattern
		switch {
		case p.Variadic:
			s += "…"
		case p.Optional:
			s += "?"
		}
		r = append(r, s)
	}
	return strings.Join(r, ", ")
}

// types writes what each type variable stands for, tensors by their element type.
func types(s *ir.Signature) string {
	var names []string
	for n := range s.Vars {
		names = append(names, n)
	}
	slices.Sort(names)
	var r []string
	for _, n := range names {
		var ts []string
		for _, t := range s.Vars[n] {
			w := t.String()
			if t.Kind == tensor.KindTensor {
				w = t.Elem.String()
			}
			if !slices.Contains(ts, w) {
				ts = append(ts, w)
			}
		}
		text := strings.Join(ts, ", ")
		if len(ts) == allTypes {
			text = "all tensors"
		}
		r = append(r, n+": "+text)
	}
	return strings.Join(r, "; ")
}

// allTypes is the number of element types.
var allTypes = func() int {
	n := 0
	for d := tensor.TypeFloat32; d.Valid(); d++ {
		n++
	}
	return n
}()
