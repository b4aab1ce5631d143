//go:build purego || !amd64

package quant

import "github.com/onward-ml/onward/internal/cpu"

func addRows(cpu.Level, *Rows, int, int) bool { return false }

func widenBytes(cpu.Level, []byte, []byte, byte, int32) int { return 0 }
