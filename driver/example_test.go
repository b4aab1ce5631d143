package driver_test

import (
	"context"
	"fmt"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// negator is a provider for models that negate a vector.
type negator struct{}

func init() { driver.Register(negator{}) }

func (negator) Name() string                  { return "negator" }
func (negator) Available(driver.Config) error { return nil }

func (negator) Compile(_ context.Context, m *driver.Model, _ *driver.Options, _ driver.Config) (driver.Engine, error) {
	if n := m.Graph.Nodes; len(n) != 1 || n[0].OpType != "Neg" {
		return nil, driver.Errorf(driver.CodeNotImplemented, "the provider runs Neg only")
	}
	return negation{}, nil
}

// negation is the engine of negator.
type negation struct{}

func (negation) Close() error { return nil }

func (negation) Run(_ context.Context, req *driver.Request) (err error) {
	x, err := tensor.Data[float32](req.In[0])
	if err != nil {
		return err
	}
	y := make([]float32, len(x))
	for i := range x {
		y[i] = -x[i]
	}
	req.Out[0], err = tensor.New(y, len(y))
	return err
}

// The init function of a package registers its provider. A session selects it by name.
func Example() {
	b := onnx.NewModel("neg").Opset("", 17)
	b.Input("x", onnx.Float, 3).Output("y", onnx.Float, 3)
	b.Node("Neg", []string{"x"}, []string{"y"})

	ctx := context.Background()
	sess, err := onward.OpenModel(ctx, b.Must(),
		&onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: "negator"}, {Name: "cpu"}}})
	if err != nil {
		panic(err)
	}
	defer sess.Close()
	x := tensor.Must(tensor.New([]float32{1, -2, 3}, 3))
	out, err := sess.Run(ctx, onward.Values{"x": x}, nil)
	if err != nil {
		panic(err)
	}
	fmt.Println(sess.Provider(), tensor.MustData[float32](out["y"].(*tensor.Tensor)))
	// Output: negator [-1 2 -3]
}
