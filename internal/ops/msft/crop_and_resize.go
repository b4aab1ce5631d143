package msft

import (
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// CropAndResize crops boxes [y1 x1 y2 x2] from N×C×H×W images and resizes all crops to
// one size. The coordinates 0 and 1 are the centers of the outermost pixels of an image.
// Samples outside the image are Extrapolation
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.CropAndResize).
type CropAndResize struct {
	Nearest       bool
	Extrapolation float32
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "CropAndResize", Since: kit.Versions{1},
	Class: kit.ClassShape,
	In:    "X:T1, rois:T1, batch_indices:T2, crop_size:T2", Out: "Y:T1", Types: "T1: float16 float double; T2: int32",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &CropAndResize{a.Enum("mode", "bilinear", "bilinear", "nearest") == "nearest",
			a.Float("extrapolation_value", 0)}
	}})

// Infer implements [ir.Operator].
func (o *CropAndResize) Infer(c *ir.InferContext) error {
	out := ir.UnknownDims(4)
	x, rois, index := c.Shape(0), c.Shape(1), c.Shape(2)
	kit.SetShape(c, 0, c.Elem(0), out)
	for i, want := range []int{4, 2, 1, 1} {
		if err := kit.CheckRank(c, i, want, []string{"X", "rois", "batch_indices", "crop_size"}[i]); err != nil {
			return err
		}
	}
	if rois != nil {
		out[0] = rois[0]
	} else if index != nil {
		out[0] = index[0]
	}
	if x != nil {
		out[1] = x[1]
	}
	if size, ok := kit.KnownInts(c, 3); ok {
		if _, _, err := cropSize(size); err != nil {
			return err
		}
		out[2], out[3] = ir.Known(size[0]), ir.Known(size[1])
	}
	kit.SetShape(c, 0, c.Elem(0), out)
	return nil
}

func cropSize(size []int) (h, w int, err error) {
	if len(size) != 2 || size[0] < 1 || size[1] < 1 {
		return 0, 0, fail.Errorf("crop_size is %v, want two positive numbers", size)
	}
	return size[0], size[1], nil
}

// Run implements [ir.Operator].
func (o *CropAndResize) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return cropAndResize[float64](c, o)
	}
	return cropAndResize[float32](c, o)
}

func cropAndResize[T kit.RealFloat](c *ir.Call, o *CropAndResize) error {
	x, rois, batch := c.Tensor(0), c.Tensor(1), c.Tensor(2)
	s := x.Shape()
	n := batch.Len()
	if len(s) != 4 || batch.Rank() != 1 || rois.Rank() != 2 || rois.Dim(0) != n || rois.Dim(1) != 4 {
		return fail.Errorf("X, rois and batch_indices have shapes %v, %v and %v, want [N C H W], [%d 4] "+
			"and one dimension", s, rois.Shape(), batch.Shape(), n)
	}
	size, err := kit.SmallInts(c.Tensor(3), "crop_size")
	if err != nil {
		return err
	}
	h, w, err := cropSize(size)
	if err != nil {
		return err
	}
	image := tensor.MustData[int32](batch)
	for i, b := range image {
		if b < 0 || int(b) >= s[0] {
			return fail.Errorf("batch_indices[%d] is %d, want 0 to %d", i, b, s[0]-1)
		}
	}
	src, err := kit.RealIn[T](c, x)
	if err != nil {
		return err
	}
	boxes, err := kit.RealIn[T](c, rois)
	if err != nil {
		return err
	}
	y, err := kit.RealOut[T](c, 0, x.DType(), n, s[1], h, w)
	if err != nil {
		return err
	}
	plane := s[2] * s[3]
	kit.ParallelEach(c, n*h, s[1]*w, func(k int) {
		i, row := k/h, k%h
		box := boxes[4*i:][:4]
		v := cropCoord(box[0], box[2], row, h, s[2])
		at := i*s[1]*h*w + row*w
		for col := range w {
			u := cropCoord(box[1], box[3], col, w, s[3])
			inside := v >= 0 && v <= T(s[2]-1) && u >= 0 && u <= T(s[3]-1)
			for ch := range s[1] {
				p := &y.Data[at+ch*h*w+col]
				if !inside {
					*p = T(o.Extrapolation)
					continue
				}
				img := src[(int(image[i])*s[1]+ch)*plane:][:plane]
				if o.Nearest {
					*p = img[int(math.Round(float64(v)))*s[3]+int(math.Round(float64(u)))]
					continue
				}
				top, left := int(v), int(u)
				bottom, right := min(top+1, s[2]-1), min(left+1, s[3]-1)
				fy, fx := v-T(top), u-T(left)
				a, b := img[top*s[3]+left], img[top*s[3]+right]
				d, e := img[bottom*s[3]+left], img[bottom*s[3]+right]
				a += (b - a) * fx
				d += (e - d) * fx
				*p = a + (d-a)*fy
			}
		}
	})
	y.Store()
	return nil
}

// cropCoord returns the coordinate, in elements of an axis of the given size, of element
// i of n of a crop from a to b.
func cropCoord[T kit.RealFloat](a, b T, i, n, size int) T {
	last := T(size - 1)
	switch {
	case n == 1:
		return (a + b) / 2 * last
	case i == n-1:
		return b * last
	}
	return a*last + T(i)*((b-a)*last/T(n-1))
}
