// Package blocked holds the operators that only optimizer passes make: those of
// the blocked layout NCHW16c and those that several operators of a model are fused to.
package blocked
