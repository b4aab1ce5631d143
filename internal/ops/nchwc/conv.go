package nchwc

import (
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/internal/ops/msft"
)

// Conv convolves, adds Sum and applies an activation. The filter is blocked, see [UnblockFilter].
var _ = kit.Register(&kit.Def{Domain: kit.DomainNchwc, Name: "Conv", Since: kit.Versions{1},
	In: "X:T, W:T, B:T?, Sum:T?", Out: "Y:T", Types: "T: float",
	MACs: kit.ConvMACs,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &Conv{readBlock(a), msft.ActivatedConv{
			Conv: ops.Conv{Window: window.Read(a, true), Group: window.ReadGroup(a)},
			Act:  msft.ReadFusedActivation(a, a.Floats("activation_params"))}}
	}})
