package contrib

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"os"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// array is a tensor in JSON.
type array struct {
	Type  string          `json:"t"`
	Shape []int           `json:"s"`
	Data  json.RawMessage `json:"d"`
}

// opCase is a call of an operator and its result: outputs, or an error.
type opCase struct {
	Op     string         `json:"op"`
	Domain string         `json:"domain,omitempty"`
	Attrs  map[string]any `json:"attrs,omitempty"`
	In     []*array       `json:"in"`
	Types  []string       `json:"types"`
	Out    []*array       `json:"out,omitempty"`
	Error  string         `json:"error,omitempty"`
}

func tensorAs[T tensor.Element](a *array) (*tensor.Tensor, error) {
	var data []T
	if err := json.Unmarshal(a.Data, &data); err != nil {
		return nil, err
	}
	return tensor.New(data, a.Shape...)
}

func (a *array) tensor() (*tensor.Tensor, error) {
	switch a.Type {
	case "string":
		return tensorAs[string](a)
	case "int64":
		return tensorAs[int64](a)
	case "int32":
		return tensorAs[int32](a)
	case "float":
		return tensorAs[float32](a)
	case "bool":
		return tensorAs[bool](a)
	case "uint8":
		var data []int
		if err := json.Unmarshal(a.Data, &data); err != nil {
			return nil, err
		}
		b := make([]uint8, len(data))
		for i, v := range data {
			b[i] = uint8(v)
		}
		return tensor.New(b, a.Shape...)
	}
	return nil, fmt.Errorf("type %q", a.Type)
}

// model returns a model of one node.
func (c *opCase) model() (*onnx.Model, error) {
	name := c.Domain
	if name == "" {
		name = domain
	}
	m := onnx.NewModel("case").Opset("", 18).Opset(name, 1)
	types := map[string]onnx.DataType{"string": onnx.String, "int64": onnx.Int64, "int32": onnx.Int32,
		"float": onnx.Float, "bool": onnx.Bool, "uint8": onnx.Uint8}
	var in, out []string
	for i, a := range c.In {
		if a == nil {
			in = append(in, "")
			continue
		}
		in = append(in, fmt.Sprintf("x%d", i))
		dims := make([]any, len(a.Shape))
		for k := range dims {
			dims[k] = fmt.Sprintf("d%d_%d", i, k)
		}
		m.Input(in[i], types[a.Type], dims...)
	}
	for i, t := range c.Types {
		out = append(out, fmt.Sprintf("y%d", i))
		m.OutputType(out[i], onnx.NewType(tensor.TensorType(elementTypes[t])))
	}
	attrs := onnx.Attrs{}
	for k, v := range c.Attrs {
		switch v := v.(type) {
		case float64:
			attrs[k] = int64(v)
		case map[string]any:
			b, err := base64.StdEncoding.DecodeString(v["base64"].(string))
			if err != nil {
				return nil, err
			}
			attrs[k] = string(b)
		default:
			attrs[k] = v
		}
	}
	m.Node(c.Op, in, out, attrs).Domain(name)
	return m.Model()
}

var elementTypes = map[string]tensor.DType{"string": tensor.TypeString, "int64": tensor.TypeInt64,
	"int32": tensor.TypeInt32, "float": tensor.TypeFloat32, "bool": tensor.TypeBool, "uint8": tensor.TypeUint8}

// run runs the operator.
func (c *opCase) run(o *onward.SessionOptions) ([]tensor.Value, error) {
	m, err := c.model()
	if err != nil {
		return nil, err
	}
	s, err := onward.OpenModel(context.Background(), m, o)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	in := onward.Values{}
	for i, a := range c.In {
		if a != nil {
			if in[fmt.Sprintf("x%d", i)], err = a.tensor(); err != nil {
				return nil, err
			}
		}
	}
	r, err := s.Run(context.Background(), in, nil)
	if err != nil {
		return nil, err
	}
	out := make([]tensor.Value, len(c.Types))
	for i := range out {
		out[i] = r[fmt.Sprintf("y%d", i)]
	}
	return out, nil
}

// compare describes the first difference of a result of c to the expected one.
func (c *opCase) compare(got []tensor.Value, err error) string {
	if c.Error != "" {
		if err == nil {
			return fmt.Sprintf("got %v, want an error", got)
		}
		return ""
	}
	if err != nil {
		return "error: " + err.Error()
	}
	tol := tolerances[c.Op]
	if c.Attrs["format"] == "jpg" {
		tol = 8.0 / 255
	}
	for i, a := range c.Out {
		want, err := a.tensor()
		if err != nil {
			return err.Error()
		}
		if c.Op == "EncodeImage" {
			got[i], want = pixels(got[i]), pixels(want).(*tensor.Tensor)
		}
		if err := tensor.AllClose(got[i], want, tol, tol); err != nil {
			return fmt.Sprintf("output %d: %v\ngot  %v\nwant %v", i, err, got[i], want)
		}
	}
	return ""
}

// pixels returns the pixels of an image file, since compressed bytes are not compared.
func pixels(v tensor.Value) tensor.Value {
	img, _, err := image.Decode(bytes.NewReader(v.(*tensor.Tensor).Bytes()))
	if err != nil {
		return list([]string{err.Error()})
	}
	var out []float32
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			r, g, b, a := img.At(x, y).RGBA()
			out = append(out, float32(r)/0xFFFF, float32(g)/0xFFFF, float32(b)/0xFFFF, float32(a)/0xFFFF)
		}
	}
	return shaped(out, img.Bounds().Dy(), img.Bounds().Dx(), 4)
}

// tolerances are those of operators whose sums are rounded in another order.
var tolerances = map[string]float64{"AudioDecoder": 1e-5, "StftNorm": 1e-5, "Inverse": 1e-5}

// short returns the attributes that fit in a line, and the inputs.
func (c *opCase) short() string {
	var b strings.Builder
	for k, v := range c.Attrs {
		if s := fmt.Sprint(v); len(s) < 60 {
			fmt.Fprintf(&b, "%s=%q ", k, s)
		}
	}
	for _, a := range c.In {
		if a != nil {
			fmt.Fprintf(&b, "%s%v %.200s ", a.Type, a.Shape, a.Data)
		}
	}
	return b.String()
}

// both calls f for both engines.
func both(t *testing.T, f func(t *testing.T, o *onward.SessionOptions)) {
	for _, p := range []string{"reference", "cpu"} {
		t.Run(p, func(t *testing.T) { f(t, enginetest.On(p)) })
	}
}

func recorded(t *testing.T) []*opCase {
	data, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Texts []any
		Cases []*opCase
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	for _, c := range file.Cases {
		for k, v := range c.Attrs {
			if m, ok := v.(map[string]any); ok && m["text"] != nil {
				c.Attrs[k] = file.Texts[int(m["text"].(float64))]
			}
		}
	}
	return file.Cases
}

// TestRecorded compares the operators with recorded results of onnxruntime-extensions.
func TestRecorded(t *testing.T) {
	both(t, func(t *testing.T, o *onward.SessionOptions) {
		o.Logger = nil
		seen := map[string]bool{}
		for i, c := range recorded(t) {
			if c.Error == "" {
				seen[c.Op] = true
			}
			out, err := c.run(o)
			if diff := c.compare(out, err); diff != "" {
				t.Errorf("case %d: %s %v\n%s", i, c.Op, c.short(), diff)
			}
		}
		for _, op := range Operators() {
			if !seen[op.Name] {
				t.Errorf("%s has no case", op.Name)
			}
		}
	})
}

// TestDocumented checks that docs/contrib.md lists every operator.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/contrib.md")
	enginetest.Must(t, err)
	table, _, _ := strings.Cut(string(page), "Not supported")
	for _, op := range Operators() {
		if !strings.Contains(table, "`"+op.Name+"`") {
			t.Errorf("docs/contrib.md does not list %s", op.Name)
		}
	}
}
