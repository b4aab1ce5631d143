// Command customop runs a model with an operator that ONNX does not have: Haversine of the domain
// example.geo, the distance between points on the Earth. The operator is written in Go. It has the
// types and shapes of its outputs inferred, so that the rest of the model is optimized as usual.
//
//	go run ./examples/customop
//	Paris to Rome: 1105 km
package main

import (
	"context"
	"fmt"
	"log"
	"math"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

func main() {
	km, err := distances(context.Background(), [][2]float32{{48.8566, 2.3522}}, [][2]float32{{41.9028, 12.4964}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("Paris to Rome: %.0f km\n", km[0])
}

// haversine has two inputs of shape [n, 2], latitudes and longitudes in degrees, and an output of
// shape [n], the distances in units of the attribute radius.
var haversine = onward.CustomOperator{
	Domain: "example.geo", Name: "Haversine",
	Inputs: "from:T, to:T", Outputs: "distance:T", Types: map[string]string{"T": "float"},
	Infer: func(s onward.CustomShapes) ([][]onward.Dim, error) {
		for i, in := range s.Shapes {
			if in != nil && len(in) != 2 {
				return nil, fmt.Errorf("input %d has rank %d, want 2: points and coordinates", i, len(in))
			}
		}
		if s.Shapes[0] == nil {
			return [][]onward.Dim{nil}, nil // unknown until the run
		}
		return [][]onward.Dim{{s.Shapes[0][0]}}, nil
	},
	Run: func(ctx context.Context, c onward.CustomCall) ([]tensor.Value, error) {
		from, err := points(c.In[0])
		if err != nil {
			return nil, err
		}
		to, err := points(c.In[1])
		if err != nil {
			return nil, err
		}
		if len(from) != len(to) {
			return nil, fmt.Errorf("from has %d points and to has %d, want as many", len(from)/2, len(to)/2)
		}
		radius, ok := c.Attributes["radius"].(float32)
		if !ok {
			radius = 6371 // of the Earth in km
		}
		d := make([]float32, len(from)/2)
		for i := range d {
			d[i] = radius * arc(from[2*i:], to[2*i:])
		}
		y, err := tensor.New(d, len(d))
		return []tensor.Value{y}, err
	},
}

// points returns the coordinates of a tensor of shape [n, 2].
func points(v tensor.Value) ([]float32, error) {
	t, ok := v.(*tensor.Tensor)
	if !ok || t.Rank() != 2 || t.Dim(1) != 2 {
		return nil, fmt.Errorf("got %s, want points of shape [n, 2]", v)
	}
	return tensor.Data[float32](t)
}

// arc returns the angle between two points in radians, by the haversine formula
// (https://en.wikipedia.org/wiki/Haversine_formula).
func arc(a, b []float32) float32 {
	const degree = math.Pi / 180
	lat1, lat2 := float64(a[0])*degree, float64(b[0])*degree
	s, c := math.Sin((lat2-lat1)/2), math.Sin(float64(b[1]-a[1])*degree/2)
	return float32(2 * math.Asin(math.Sqrt(min(s*s+math.Cos(lat1)*math.Cos(lat2)*c*c, 1))))
}

// model computes the distances between points and rounds them down.
func model() (*onnx.Model, error) {
	b := onnx.NewModel("distances").Opset("", 21).Opset("example.geo", 1)
	b.Input("from", onnx.Float, "n", 2).Input("to", onnx.Float, "n", 2).Output("km", onnx.Float, "n")
	b.Node("Haversine", []string{"from", "to"}, []string{"d"}).Domain("example.geo")
	b.Node("Floor", []string{"d"}, []string{"km"})
	return b.Model()
}

func distances(ctx context.Context, from, to [][2]float32) ([]float32, error) {
	m, err := model()
	if err != nil {
		return nil, err
	}
	s, err := onward.OpenModel(ctx, m, &onward.SessionOptions{CustomOperators: []onward.CustomOperator{haversine}})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	feed := onward.Values{}
	for name, p := range map[string][][2]float32{"from": from, "to": to} {
		var flat []float32
		for _, x := range p {
			flat = append(flat, x[:]...)
		}
		if feed[name], err = tensor.New(flat, len(p), 2); err != nil {
			return nil, err
		}
	}
	out, err := s.Run(ctx, feed, nil)
	if err != nil {
		return nil, err
	}
	return tensor.Data[float32](out["km"])
}
