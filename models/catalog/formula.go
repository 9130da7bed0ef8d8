package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/disagg/disagg/models/formula"
)

// Builtins are the names that formulas of every layer may use, with what they
// stand for.
func Builtins() map[string]string {
	return map[string]string{
		"tp":                          "tensor parallel size of the worker",
		"pp":                          "pipeline parallel size of the worker",
		"ep":                          "expert parallel size of the worker; 1: off",
		"dp":                          "data-parallel attention ranks of the worker; 1: off",
		"mtp":                         "speculative depth; 0: off",
		"gpus_per_node":               "GPUs of a node",
		"concurrency":                 "the largest concurrency of client and evaluation",
		"concurrency_per_rank":        "concurrency divided by tp, rounded up",
		"decode_concurrency_per_rank": "concurrency divided by the tp of the decode workers, rounded up",
	}
}

// Evaluate computes the formulas of vars over the built-in values and returns
// both together.
func Evaluate(vars map[string]Value, builtins map[string]int64) (map[string]int64, error) {
	all := maps.Clone(builtins)
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		n, err := Eval(vars[name].Text, builtins)
		if err != nil {
			return nil, fmt.Errorf("%s (%s): %w", name, vars[name].From, err)
		}
		all[name] = n
	}
	return all, nil
}

// Eval computes a formula, or the least of several written min(A, B, …).
func Eval(text string, vars map[string]int64) (int64, error) {
	list, err := parse(text)
	if err != nil {
		return 0, err
	}
	var least int64
	for i, f := range list {
		n, err := f.Eval(vars)
		if err != nil {
			return 0, err
		}
		if i == 0 || n < least {
			least = n
		}
	}
	return least, nil
}

// parse reads a formula or the formulas of a min(A, B, …).
func parse(text string) ([]formula.Formula, error) {
	parts := []string{text}
	if inner, ok := strings.CutPrefix(strings.TrimSpace(text), "min("); ok {
		list, closed := strings.CutSuffix(inner, ")")
		if !closed {
			return nil, fmt.Errorf("%q is not closed; write min(A, B)", text)
		}
		parts = strings.Split(list, ",")
	}
	var list []formula.Formula
	for _, p := range parts {
		f, err := formula.Parse(strings.TrimSpace(p))
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return list, nil
}

// Expand replaces each ${formula} in a text by its value.
func Expand(text string, vars map[string]int64) (string, error) {
	return expand(text, func(f formula.Formula) (string, error) {
		n, err := f.Eval(vars)
		return strconv.FormatInt(n, 10), err
	})
}

// formulas lists the formulas in the ${…} of a text.
func formulas(text string) ([]formula.Formula, error) {
	var list []formula.Formula
	_, err := expand(text, func(f formula.Formula) (string, error) {
		list = append(list, f)
		return "", nil
	})
	return list, err
}

func expand(text string, value func(formula.Formula) (string, error)) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		inner, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", fmt.Errorf("a ${ in %q is not closed", text)
		}
		f, err := formula.Parse(inner)
		if err != nil {
			return "", err
		}
		v, err := value(f)
		if err != nil {
			return "", err
		}
		b.WriteString(v)
		text = after
	}
}
