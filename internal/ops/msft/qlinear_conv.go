package msft

import (
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/window"
)

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "QLinearConv", Since: kit.Versions{1},
	MACs: kit.QLinearConvMACs,
	In: "x:T1, x_scale:float, x_zero_point:T1, w:T2, w_scale:float, w_zero_point:T2, y_scale:float, " +
		"y_zero_point:T3, B:T4?", Out: "y:T3",
	Types: "T1: " + byteTypes + "; T2: " + byteTypes + "; T3: " + byteTypes + "; T4: int32",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &ops.QLinearConv{Window: window.Read(a, true), Group: window.ReadGroup(a),
			ChannelsLast: a.Bool("channels_last", false)}
	}})
