package env

import (
	"fmt"
	"slices"
	"strings"
)

// Markdown writes the list as docs/environment.md. The text has no other
// source; a test holds the file to it.
func Markdown() string {
	t := Known()
	var b strings.Builder
	b.WriteString(`# Environment variables

<!-- Written from models/env. Change the list there, then: go test ./models/env -update -->

disagg starts every process with the image's own environment and the variables of the plan, nothing else: the submitting shell is not inherited. A variable reaches a process when

- the catalog, the site or the engine adapter sets it,
- the recipe sets it under ` + "`env`" + ` (every worker), ` + "`prefill.env`, `decode.env`, `aggregate.env`, `router.env`, `client.env` or `evals.env`" + `,
- the recipe names it under ` + "`forward`, `router.forward`, `client.forward` or `evals.forward`" + ` and it is set where the run is submitted (a name, or a glob such as ` + "`NCCL_*`" + `), or
- the command line sets it with ` + "`--env NAME=VALUE` (every worker) or `--env SCOPE:NAME=VALUE`" + `.

What comes later wins: default, catalog, site, recipe, forwarded, command line. ` + "`disagg plan --explain`" + ` shows the winner and what it beat. Values are carried byte for byte; empty and unset are different.

A name in a recipe that no program of the run reads is an error, with the nearest known names. For a name that this list lacks, write ` + "`NAME: {value: …, custom: true}`" + `. Booleans may be written in any usual spelling; the reader gets the one it knows.

Secrets never appear in plans, logs, reports or argument lists. A variable is secret when the list says so or when its name is, or ends in, one of ` + joinCode(secretWords()) + `. A URL with a password in it is secret whatever its name.

Variables of the submitting shell that begin with ` + joinCode(prefixes()) + ` and are not forwarded are listed as a warning when planning.

The scopes are ` + joinCode(Scopes()) + `; "workers" stands for the first three.
`)
	for _, g := range groups() {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| Variable | Meaning | Values | If unset | Read in |\n|---|---|---|---|---|\n", g.title, g.about)
		names := make([]string, 0, len(g.vars))
		for _, v := range g.vars {
			names = append(names, v.Name)
		}
		slices.Sort(names)
		for _, n := range names {
			v, _ := t.Lookup(n)
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", v.Name, v.describe(), v.values(), code(v.Default), v.where())
		}
	}
	return b.String()
}

func (v Var) describe() string {
	s := v.Meaning
	if v.Secret {
		s += " (secret)"
	}
	if v.EmptyMeans != "" {
		s += "; empty: " + v.EmptyMeans
	}
	if v.Key != "" {
		s += "; say `" + v.Key + "`"
	}
	if len(v.Confused) > 0 {
		s += "; not " + joinCode(v.Confused)
	}
	return s
}

func (v Var) values() string {
	if len(v.Allowed) > 0 {
		return joinCode(v.Allowed)
	}
	if v.Max > 0 {
		return fmt.Sprintf("%s, at most %d", v.Kind, v.Max)
	}
	return string(v.Kind)
}

func (v Var) where() string {
	var out []string
	for _, s := range v.Scopes() {
		switch {
		case !IsWorker(s):
			out = append(out, s)
		case s == ScopePrefill:
			out = append(out, "workers")
		}
	}
	if len(out) == 0 {
		return "nothing"
	}
	if len(out) == len(Scopes())-2 {
		return "everything"
	}
	return strings.Join(out, ", ")
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

func joinCode(list []string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = code(s)
	}
	return strings.Join(out, ", ")
}
