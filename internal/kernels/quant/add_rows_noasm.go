//go:build purego || !amd64

package quant

import "github.com/onward-ml/onward/internal/cpu"

func addRows(cpu.Level, *Rows, int, int) bool { return false }
