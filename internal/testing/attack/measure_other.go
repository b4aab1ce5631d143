//go:build !linux

package main

import "time"

var began = time.Now()

// threadTime returns the elapsed time, since the CPU time of a thread is not available.
func threadTime() time.Duration { return time.Since(began) }

// Resident memory and the processor time of other processes are measured on Linux only.
func resetPeak(int) {}

func peak(int) int64     { return 0 }
func resident(int) int64 { return 0 }

func processTime(int) time.Duration { return 0 }
