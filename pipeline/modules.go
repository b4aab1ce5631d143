package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// oneOrMore is a string or a list of strings.
type oneOrMore []string

func (l *oneOrMore) UnmarshalJSON(data []byte) error {
	var s string
	if json.Unmarshal(data, &s) == nil {
		*l = []string{s}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(l))
}

// module is an entry of modules.json.
type module struct {
	Idx        int
	Path, Type string
}

// class is the last part of the type.
func (m *module) class() string { return m.Type[strings.LastIndexByte(m.Type, '.')+1:] }

// modules reads modules.json. It returns nil if there is no such file.
func (f *folder) modules() ([]module, error) {
	data, err := f.read("modules.json", f.opts.maxFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	const most = 32
	var entries [most + 1]json.RawMessage // an array, to keep no more of a long list
	if err := json.Unmarshal(data, &entries); err != nil {
		return nil, fmt.Errorf("modules.json: %w", err)
	}
	n := len(entries)
	if i := slices.IndexFunc(entries[:], func(e json.RawMessage) bool { return e == nil }); i >= 0 {
		n = i
	}
	if n == 0 || n > most {
		return nil, fmt.Errorf("modules.json: there are %d modules or more, want 1 to %d", n, most)
	}
	list := make([]module, n)
	for i := range list {
		m := &list[i]
		if err := json.Unmarshal(entries[i], m); err != nil {
			return nil, fmt.Errorf("modules.json: %w", err)
		}
		if m.Path != "" && !fs.ValidPath(m.Path) {
			return nil, fmt.Errorf("modules.json: path %q is not within the folder", m.Path)
		}
		if strings.Contains(m.Path, "/") { // servers count the memory of files in the folders of this one
			return nil, fmt.Errorf("modules.json: path %q is not the name of a folder", m.Path)
		}
	}
	return list, nil
}

// config reads the configuration of a module.
func (f *folder) moduleConfig(m *module) (*object, error) {
	return f.json(path.Join(m.Path, "config.json"))
}

// weightCost is what a byte of the weights of a module takes while it is opened: itself, and a
// number of 16 bits as one of 32. weightHeader is for the names of the tensors.
const weightCost, weightHeader = 3, 64 << 10

// weightMemory is what is reserved of a budget for the weights of a module.
type weightMemory struct {
	budget *onward.MemoryBudget // nil: none
	n      int64
}

// keep gives back all but n bytes.
func (m *weightMemory) keep(n int64) {
	if m.budget != nil && n < m.n {
		m.budget.Release(m.n - n)
		m.n = n
	}
}

// weights reads the safetensors of a module. The caller gives back the memory.
func (f *folder) weights(m *module) (w map[string]*tensor.Tensor, memory *weightMemory, err error) {
	limit := int64(tensor.DefaultLimit)
	memory = &weightMemory{}
	if s := f.opts.Session; s != nil {
		if memory.budget = s.Limits.Budget; s.Limits.MaxMemory > 0 {
			limit = s.Limits.MaxMemory
		}
	}
	name := path.Join(m.Path, "model.safetensors")
	file, err := f.open(name, limit)
	if err != nil {
		return nil, nil, fmt.Errorf("%w; weights of modules must be in safetensors", err)
	}
	defer file.Close()
	if memory.budget != nil {
		info, err := file.Stat()
		if err != nil {
			return nil, nil, err
		}
		n := weightCost*info.Size() + weightHeader
		if err := memory.budget.Reserve(n); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		memory.n, limit = n, min(limit, n) // the file may grow
	}
	if w, err = tensor.ReadSafetensors(file, limit); err != nil {
		memory.keep(0)
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return w, memory, nil
}

// weight returns the elements of a tensor of a shape as float32.
func weight(w map[string]*tensor.Tensor, name string, shape ...int) ([]float32, error) {
	t, ok := w[name]
	if !ok {
		return nil, fmt.Errorf("model.safetensors has no tensor %s", name)
	}
	v, err := floats(t, shape...)
	if err != nil {
		return nil, fmt.Errorf("model.safetensors: %s: %w", name, err)
	}
	return v, nil
}

func sizes(shape []int) []int64 {
	dims := make([]int64, len(shape))
	for i, n := range shape {
		dims[i] = int64(n)
	}
	return dims
}

// step computes vectors from vectors: of n×in numbers, n×out.
type step struct {
	normalizes bool // the module is Normalize
	in, out    int  // 0: any; out is that of the input
	run        func(ctx context.Context, x []float32, width int) ([]float32, error)
	close      func() error
}

// activations maps classes of torch.nn to operators of ONNX.
var activations = map[string]string{
	"Tanh": "Tanh", "ReLU": "Relu", "Sigmoid": "Sigmoid", "GELU": "Gelu", "SiLU": "Swish", "Mish": "Mish",
	"LeakyReLU": "LeakyRelu", "ELU": "Elu", "Softplus": "Softplus", "Softsign": "Softsign", "Identity": "",
}

// dense opens a module Dense: activation(x·Wᵀ + b), and x or its projection added.
func (f *folder) dense(ctx context.Context, m *module, o *object) (*step, error) {
	s := &step{}
	bias, residual, activation := true, false, "torch.nn.modules.activation.Tanh"
	o.get("in_features", &s.in)
	o.get("out_features", &s.out)
	o.get("bias", &bias)
	o.get("use_residual", &residual)
	o.get("activation_function", &activation)
	op, ok := activations[activation[strings.LastIndexByte(activation, '.')+1:]]
	if !ok || !strings.HasPrefix(activation, "torch.") {
		o.fail("activation_function", "%q is not supported", activation)
	}
	if s.in <= 0 || s.out <= 0 {
		o.fail("in_features", "want positive sizes, got %d and out_features %d", s.in, s.out)
	}
	if o.err != nil {
		return nil, o.err
	}
	w, memory, err := f.weights(m)
	if err != nil {
		return nil, err
	}
	defer memory.keep(0) // the session reserves its own
	b := onnx.NewModel("dense")
	b.Input("x", onnx.Float, "n", s.in)
	inputs := []string{"x"}
	add := func(name string, shape ...int) {
		v, e := weight(w, name, shape...)
		if e != nil {
			err = errors.Join(err, e)
			return
		}
		b.Initializer(name, v, sizes(shape)...)
		inputs = append(inputs, name)
	}
	add("linear.weight", s.out, s.in)
	if bias {
		add("linear.bias", s.out)
	}
	b.Node("Gemm", inputs, []string{"linear"}, onnx.Attrs{"transB": 1})
	y := "linear"
	if op != "" {
		b.Node(op, []string{y}, []string{"activation"})
		y = "activation"
	}
	if residual {
		from := "x"
		if s.in != s.out {
			inputs = []string{"x"}
			add("residual.weight", s.out, s.in)
			from = "residual"
			b.Node("Gemm", inputs, []string{from}, onnx.Attrs{"transB": 1})
		}
		b.Node("Add", []string{y, from}, []string{"sum"})
		y = "sum"
	}
	if err != nil {
		return nil, err
	}
	b.Output(y, onnx.Float, "n", s.out)
	return s, s.open(ctx, f, b)
}

// layerNorm opens a module LayerNorm.
func (f *folder) layerNorm(ctx context.Context, m *module, o *object) (*step, error) {
	n := 0
	o.get("dimension", &n)
	if n <= 0 {
		o.fail("dimension", "want a positive size, got %d", n)
	}
	if o.err != nil {
		return nil, o.err
	}
	w, memory, err := f.weights(m)
	if err != nil {
		return nil, err
	}
	defer memory.keep(0)
	scale, err := weight(w, "norm.weight", n)
	if err != nil {
		return nil, err
	}
	bias, err := weight(w, "norm.bias", n)
	if err != nil {
		return nil, err
	}
	s := &step{in: n, out: n}
	b := onnx.NewModel("norm")
	b.Input("x", onnx.Float, "n", n).Initializer("scale", scale, int64(n)).Initializer("bias", bias, int64(n))
	b.Node("LayerNormalization", []string{"x", "scale", "bias"}, []string{"y"}, onnx.Attrs{"epsilon": 1e-5})
	b.Output("y", onnx.Float, "n", n)
	return s, s.open(ctx, f, b)
}

// open opens a model of one input and one output, n×in and n×out.
func (s *step) open(ctx context.Context, f *folder, b *onnx.ModelBuilder) error {
	m, err := b.Model()
	if err != nil {
		return err
	}
	opts := &onward.SessionOptions{}
	if o := f.opts.Session; o != nil { // other options concern the model of the folder
		opts.Threads, opts.Limits, opts.Logger = o.Threads, o.Limits, o.Logger
	}
	sess, err := onward.OpenModel(ctx, m, opts)
	if err != nil {
		return err
	}
	s.close = sess.Close
	s.run = func(ctx context.Context, x []float32, width int) ([]float32, error) {
		t, err := tensor.New(x, len(x)/width, width)
		if err != nil {
			return nil, err
		}
		out, err := sess.RunList(ctx, []tensor.Value{t}, nil)
		if err != nil {
			return nil, err
		}
		return tensor.Data[float32](out[0])
	}
	return nil
}

// normalizeStep divides each vector by its length.
func normalizeStep() *step {
	return &step{normalizes: true, run: func(_ context.Context, x []float32, width int) ([]float32, error) {
		for i := 0; i+width <= len(x); i += width {
			normalize(x[i : i+width])
		}
		return x, nil
	}}
}
