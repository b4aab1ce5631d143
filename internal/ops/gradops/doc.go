// Package gradops holds the operators that only gradient rules make.
package gradops
