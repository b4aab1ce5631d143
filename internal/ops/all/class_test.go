package all

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/optest"
)

// registrations returns the file that registers each operator, by domain and name in the form of
// "kit.DomainMicrosoft Attention"; the domain of ai.onnx is "".
func registrations(t *testing.T) map[string]string {
	files, err := filepath.Glob("../*.go")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("../*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	def := regexp.MustCompile(`kit\.Def\{(?:Domain: (kit\.\w+), )?Name: "(\w+)"`)
	r := map[string]string{}
	for _, file := range append(files, more...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range def.FindAllStringSubmatch(string(text), -1) {
			r[m[1]+" "+m[2]] = filepath.Join("internal/ops/all", file)
		}
	}
	return r
}

// TestOperatorsHaveAClass checks that each registration determines the operator's class, from which
// tools color graphs and count operations.
func TestOperatorsHaveAClass(t *testing.T) {
	constant := map[string]string{"": "", kit.DomainML: "kit.DomainML", kit.DomainPreview: "kit.DomainPreview",
		kit.DomainMicrosoft: "kit.DomainMicrosoft", kit.DomainNchwc: "kit.DomainNchwc"}
	files := registrations(t)
	if len(files) < 300 {
		t.Fatalf("only %d registrations found", len(files))
	}
	for _, d := range kit.All() {
		if d.Kind() == kit.ClassDerived {
			file := files[constant[d.Domain]+" "+d.Name]
			t.Errorf("%s: set Class of %s, such as kit.ClassReduction; see kit.Def.Kind", file,
				kit.QualifiedName(d.Domain, d.Name))
		}
		if d.MACs != nil && d.Kind() != kit.ClassLinear || d.Work != 0 && d.Kind() != kit.ClassNormalization {
			t.Errorf("%s has MACs or Work, which its class does not use", d.Name)
		}
	}
}

// TestKind checks the classes that follow from traits, types and names.
func TestKind(t *testing.T) {
	for name, want := range map[string]kit.Class{
		"Relu": kit.ClassActivation, "Clip": kit.ClassActivation, "Not": kit.ClassArithmetic, "Add": kit.ClassArithmetic, "Where": kit.ClassArithmetic,
		"Conv": kit.ClassLinear, "LSTM": kit.ClassLinear, "Softmax": kit.ClassNormalization, "RMSNormalization": kit.ClassNormalization,
		"ReduceMax": kit.ClassReduction, "MaxPool": kit.ClassReduction, "CumSum": kit.ClassReduction, "Gather": kit.ClassShape, "Identity": kit.ClassShape,
		"Cast": kit.ClassShape, "Concat": kit.ClassShape, "Loop": kit.ClassControl, "SequenceAt": kit.ClassControl, "OptionalHasElement": kit.ClassControl,
		"StringConcat": kit.ClassOther, "RandomNormal": kit.ClassOther,
	} {
		if got := kit.Registered("", name).Kind(); got != want {
			t.Errorf("%s has class %d, want %d", name, got, want)
		}
	}
}

// TestCost counts the operations of nodes.
func TestCost(t *testing.T) {
	for _, c := range []struct {
		name             string
		out              []int64
		in               [][]int64
		macs, operations float64
	}{
		{"Conv", []int64{1, 8, 5, 5}, [][]int64{{1, 4, 5, 5}, {8, 2, 3, 3}}, 200 * 18, 400 * 18},
		{"ConvTranspose", []int64{1, 4, 10, 10}, [][]int64{{1, 8, 5, 5}, {8, 4, 2, 2}}, 200 * 16, 400 * 16},
		{"QLinearConv", []int64{1, 8, 5, 5}, [][]int64{{1, 4, 5, 5}, nil, nil, {8, 2, 3, 3}}, 200 * 18, 400 * 18},
		{"MatMul", []int64{2, 3, 5}, [][]int64{{2, 3, 4}, {4, 5}}, 120, 240},
		{"Gemm", []int64{3, 5}, [][]int64{{4, 3}, {4, 5}}, 60, 120},
		{"com.microsoft.FusedMatMul", []int64{2, 3, 5}, [][]int64{{2, 3, 4}, {5, 4}}, 120, 240},
		{"LSTM", []int64{7, 1, 2, 3}, [][]int64{{7, 2, 4}, {1, 12, 4}, {1, 12, 3}}, 14 * 84, 28 * 84},
		{"Attention", []int64{1, 2, 3, 4}, [][]int64{{1, 2, 3, 4}, {1, 2, 5, 4}}, 240, 480},
		{"com.microsoft.Attention", []int64{1, 3, 4}, [][]int64{{1, 3, 4}, {4, 12}}, 144, 288},
		{"ReduceSum", []int64{2}, [][]int64{{2, 9}}, 0, 18},
		{"Softmax", []int64{2, 9}, [][]int64{{2, 9}}, 0, 72},
		{"Mul", []int64{2, 9}, [][]int64{{2, 1}, {9}}, 0, 18},
		{"Transpose", []int64{2, 9}, [][]int64{{9, 2}}, 0, 0},
		{"MatMul", nil, [][]int64{nil, nil}, 0, 0},
		{"MatMul", []int64{0, 1 << 62}, [][]int64{{0, 1 << 62}, {1 << 62, 1 << 62}}, 0, 0},
	} {
		d := kit.Registered(optest.SplitOpName(c.name))
		macs, operations := d.Cost(kit.Shapes{Out: c.out, In: func(i int) []int64 {
			if i < len(c.in) {
				return c.in[i]
			}
			return nil
		}})
		if macs != c.macs || operations != c.operations {
			t.Errorf("%s of %v: %v MACs and %v operations, want %v and %v", c.name, c.in, macs, operations,
				c.macs, c.operations)
		}
	}
}
