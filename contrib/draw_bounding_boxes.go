package contrib

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/onward-ml/onward/tensor"
)

// boxColors are blue, green and red of the colors of boxes.
var boxColors = [][3]uint8{{0, 0, 255}, {0, 255, 255}, {0, 255, 0}, {255, 0, 0}, {255, 255, 0}, {255, 0, 255},
	{0, 128, 255}, {0, 0, 128}, {0, 128, 0}, {128, 0, 0}}

// DrawBoundingBoxes draws boxes of shape [n, 6] on an image of shape [height, width, 3] in blue,
// green and red. A box has four coordinates, which the attribute mode names, score and class. Each
// class has a color, or if the attribute colour_by_classes is 0, each of the ten boxes with the
// highest scores. Boxes of the first ten colors are drawn, the highest score last.
var _ = add(domainVision, "DrawBoundingBoxes", "image:uint8, boxes:float", "output:uint8",
	func(n *node) (kernel, error) {
		mode, thickness, byClass := n.text("mode", "XYXY"), n.int("thickness", 4), n.int("colour_by_classes", 1) > 0
		if n.err == nil && !slices.Contains([]string{"XYXY", "XYWH", "CENTER_XYWH"}, mode) {
			return nil, fmt.Errorf("attribute mode is %q, want XYXY, XYWH or CENTER_XYWH", mode)
		}
		if n.err == nil && thickness < 1 {
			return nil, fmt.Errorf("attribute thickness is %d, want at least 1", thickness)
		}
		return func(c *call) ([]tensor.Value, error) {
			in, boxes := c.tensor(0), c.tensor(1)
			if in.Rank() != 3 || in.Dim(2) != 3 {
				return nil, fmt.Errorf("the image has shape %v, want [height, width, 3]", in.Shape())
			}
			if boxes.Rank() != 2 || boxes.Dim(1) != 6 {
				return nil, fmt.Errorf("the boxes have shape %v, want [boxes, 6]", boxes.Shape())
			}
			if err := c.Reserve(int64(in.Len()) + 48*int64(boxes.Dim(0))); err != nil {
				return nil, err
			}
			out := &canvas{slices.Clone(in.Bytes()), in.Dim(0), in.Dim(1)}
			list := colored(slices.Collect(slices.Chunk(c.floats(1), 6)), byClass)
			for i, b := range slices.Backward(list) {
				if i&15 == 0 && c.ctx.Err() != nil {
					return nil, c.ctx.Err()
				}
				out.drawBox(b.box, mode, thickness, boxColors[b.color])
			}
			return values(shaped(out.pixels, in.Shape()...))
		}, nil
	})

// coloredBox is a box with the index of its color.
type coloredBox struct {
	box   []float32
	color int
}

// colored returns the boxes that are drawn, the last first.
func colored(boxes [][]float32, byClass bool) []coloredBox {
	slices.SortStableFunc(boxes, func(a, b []float32) int { return cmp.Compare(b[4], a[4]) })
	var list []coloredBox
	colors := map[float32]int{}
	for i, b := range boxes {
		color, ok := i, true
		if byClass {
			if color, ok = colors[b[5]]; !ok {
				color = len(colors)
			}
		}
		if color < len(boxColors) {
			colors[b[5]] = color
			list = append(list, coloredBox{b, color})
		}
	}
	slices.SortStableFunc(list, func(a, b coloredBox) int { return a.color - b.color })
	return list
}

// canvas is an image of three bytes per pixel.
type canvas struct {
	pixels        []uint8
	height, width int
}

// drawBox draws the four sides of a box. One with NaN is not drawn.
func (c *canvas) drawBox(box []float32, mode string, thickness int64, color [3]uint8) {
	x0, y0, x1, y1 := box[0], box[1], box[2], box[3]
	switch mode {
	case "XYWH":
		x1, y1 = x0+x1, y0+y1
	case "CENTER_XYWH":
		x0, y0, x1, y1 = x0-x1/2, y0-y1/2, x0+x1/2, y0+y1/2
	}
	if x0 != x0 || y0 != y0 || x1 != x1 || y1 != y1 || len(c.pixels) == 0 {
		return
	}
	pixel := func(v float32, most int) int {
		return int(min(max(math.Round(float64(v)), 0), float64(most)))
	}
	right, bottom := pixel(x1, c.width-1), pixel(y1, c.height-1)
	left, top := pixel(x0, right), pixel(y0, bottom)
	least := min(right-left, bottom-top)
	t := int(min(thickness, int64(least)))
	if t < 1 {
		return
	}
	if t < least { // half of a side is outside
		left, top = max(left-t/2, 0), max(top-t/2, 0)
		right, bottom = min(right+t-t/2, c.width-1), min(bottom+t-t/2, c.height-1)
	}
	c.fill(left, top, right, top+t, color)
	c.fill(left, bottom-t, right, bottom, color)
	c.fill(left, top, left+t, bottom, color)
	c.fill(right-t, top, right, bottom, color)
}

// fill fills a rectangle, which ends before x1 and y1.
func (c *canvas) fill(x0, y0, x1, y1 int, color [3]uint8) {
	for y := y0; y < min(y1, c.height); y++ {
		for x := x0; x < min(x1, c.width); x++ {
			copy(c.pixels[3*(y*c.width+x):], color[:])
		}
	}
}
