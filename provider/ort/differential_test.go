package ort_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/opfuzz"
	"github.com/onward-ml/onward/internal/testing/suite"
)

// tally counts the outcomes of the cases of one operator.
type tally struct {
	compared    int // ONNX Runtime and both engines agree
	explained   int // they differ for a reason in opfuzz.Differences
	unsupported int // ONNX Runtime has no kernel for it
	refused     int // ONNX Runtime returns another error
	invalid     int // our engines return an error, as ONNX Runtime does
	strict      int // only our engines return an error
}

// TestRandomOperatorsAgree runs random cases of every operator on reference, cpu and
// ONNX Runtime. A difference must be one of those that docs/differences.md explains.
// -rapid.checks and -rapid.seed run more cases and others; ONWARD_TRACE=1 prints each
// case before it runs, to find one that crashes ONNX Runtime.
func TestRandomOperatorsAgree(t *testing.T) {
	ort := config(t, "graph_optimization_level", "disable")
	opfuzz.Reproducible(t, "25")
	seeds, err := opfuzz.Load("../..", suite.Dir(t))
	if err != nil {
		t.Fatal(err)
	}
	trace := os.Getenv("ONWARD_TRACE") != ""
	var total tally
	var never, lines []string
	for _, d := range kit.All() {
		// different layout of images, see TestOptimizedNetworksAgree
		if d.Domain == "onward" || d.Domain == kit.DomainNchwc {
			continue
		}
		name := kit.QualifiedName(d.Domain, d.Name)
		var n tally
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				c := opfuzz.Draw(t, d, seeds)
				if c == nil || opfuzz.CrashesORT(c) {
					return
				}
				if trace {
					fmt.Fprintln(os.Stderr, c)
				}
				compareThree(t, c, ort, &n)
			})
		})
		if t.Failed() && n.compared == 0 {
			continue
		}
		lines = append(lines,
			fmt.Sprintf("%-55s %5d compared %5d explained %5d unsupported %5d refused %5d invalid %5d only ours refuse",
				name, n.compared, n.explained, n.unsupported, n.refused, n.invalid, n.strict))
		why := incomparable[name]
		if name == "com.microsoft.MatMulFpQ4" && !cpu.Available(cpu.AVX512) {
			why = "ONNX Runtime has kernels for AVX-512 only"
		}
		if why != "" {
			lines = append(lines, "  "+why)
		} else if n.compared == 0 && n.refused > 0 {
			never = append(never, name)
		}
		total.compared += n.compared
		total.explained += n.explained
		total.unsupported += n.unsupported
		total.refused += n.refused
		total.invalid += n.invalid
		total.strict += n.strict
	}
	t.Logf("%d cases compared, %d explained, %d unsupported by ONNX Runtime, %d refused by it alone, %d by all, %d "+
		"by ours alone\n%s",
		total.compared, total.explained, total.unsupported, total.refused, total.invalid, total.strict,
		strings.Join(lines, "\n"))
	if len(never) > 0 && !testing.Short() {
		t.Errorf("%d operators of ONNX Runtime were never compared: %s", len(never), strings.Join(never, ", "))
	}
}

// unknown matches ONNX Runtime's errors about unsupported operators, types and opsets that
// do not have the status NOT_IMPLEMENTED.
var unknown = regexp.MustCompile(`not a registered function/op|ValidateOpsetForDomain|under development|No Op registered|No opset import|is invalid|Type Error: Type parameter|MLDataType for|does not support double yet|Op .MulInteger.`)

// incomparable are operators of ONNX Runtime 1.30 for which no generated case runs.
var incomparable = map[string]string{
	"com.microsoft.NGramHashMapping": "1.30 has another list of inputs and outputs",
	"com.microsoft.SparseAttention":  "it runs only with past and present in one memory",
}

func compareThree(t *rapid.T, c *opfuzz.Case, ort onward.ProviderConfig, n *tally) {
	want, err := opfuzz.Run(c, onward.ProviderConfig{Name: "reference"}, 1)
	got, err2 := opfuzz.Run(c, onward.ProviderConfig{Name: "cpu"}, 2)
	for _, err := range []error{err, err2} {
		if err != nil && strings.Contains(err.Error(), "PANIC") {
			t.Fatalf("%v\n%s", err, c)
		}
	}
	if (err == nil) != (err2 == nil) {
		t.Fatalf("reference: %v\ncpu: %v\n%s", err, err2, c)
	}
	if err != nil {
		// An error of our engines may be a defect of theirs. ONNX Runtime only runs cases that
		// our checks accept, because it reads out of bounds on others.
		n.invalid++
		return
	}
	if err := opfuzz.Compare(c, got, want); err != nil {
		t.Fatalf("cpu against reference: %v\n%s", err, c)
	}
	c.DeclareOutputs(want)
	theirs, err := opfuzz.Run(c, ort, 1)
	var st *onward.StatusError
	switch {
	case errors.As(err, &st) && (st.Code == onward.CodeNotImplemented || unknown.MatchString(st.Message)):
		n.unsupported++
		return
	case err != nil:
		n.refused++
		if os.Getenv("ONWARD_TRACE") != "" {
			fmt.Fprintf(os.Stderr, "REFUSED %s: %v\n", c.Name(), err)
		}
		return
	}
	if err := opfuzz.Compare(c, got, theirs); err != nil {
		if opfuzz.Explained(c) {
			n.explained++
			return
		}
		t.Fatalf("ours against ONNX Runtime: %v\n%s", err, c)
	}
	n.compared++
}
