// Package all links every operator: importing it fills the registry of package kit.
package all

import (
	_ "github.com/onward-ml/onward/internal/ops" // ai.onnx
	_ "github.com/onward-ml/onward/internal/ops/blocked"
	_ "github.com/onward-ml/onward/internal/ops/gradops"
	_ "github.com/onward-ml/onward/internal/ops/ml"
	_ "github.com/onward-ml/onward/internal/ops/msft"
	_ "github.com/onward-ml/onward/internal/ops/nchwc"
)
