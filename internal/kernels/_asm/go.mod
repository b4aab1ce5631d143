module github.com/onward-ml/onward/internal/kernels/_asm

go 1.26.0
