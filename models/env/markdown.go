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

disagg starts every process with the image's own environment and the variables of the plan, nothing else: the submitting shell is not inherited (what is, see below). A variable reaches a process when

- the catalog, the site or the engine adapter sets it,
- the recipe sets it under ` + "`env`" + ` (every worker), ` + "`prefill.env`, `decode.env`, `aggregate.env`, `router.env`, `client.env` or `evals.env`" + `,
- the recipe names it under ` + "`forward`" + ` (every worker), ` + "`prefill.forward`, `decode.forward`, `aggregate.forward`, `router.forward`, `client.forward` or `evals.forward`" + ` and it is set where the run is submitted (a name, or a glob such as ` + "`NCCL_*`" + `), or
- the command line sets it with ` + "`--env NAME=VALUE` (every worker) or `--env SCOPE:NAME=VALUE`" + `.

What comes later wins: default, catalog, site, recipe, forwarded, command line. ` + "`disagg plan --explain`" + ` shows the winner and what it beat. Values are carried byte for byte; empty and unset are different.

A name in a recipe that no program of the run reads is an error, with the nearest known names. For a name that this list lacks, write ` + "`NAME: {value: …, custom: true}`" + `. Booleans may be written in any usual spelling; the reader gets the one it knows.

Secrets never appear in plans, logs, reports or argument lists. A variable is secret when the list says so or when its name is, or ends in, one of ` + joinCode(secretWords()) + `. A URL with a password in it is secret whatever its name.

Variables of the submitting shell that begin with ` + joinCode(prefixes()) + ` and are not forwarded are listed as a warning when planning.

The scopes are ` + joinCode(Scopes()) + `; "workers" stands for the first three.

## The way into a process

Values go to the node over the run's own encrypted connection, there into a file that only the process's user can read, and from it into the process; the file is gone before the program runs. No value is on a command line, in ` + "`job.slurm`, in `docker inspect`" + ` or in the environment of a container program, so it makes no difference whether a node needs sudo for that. With ` + "`shell: login`" + ` the image's profile runs first; the plan's values go over what it leaves. A catalog can put a list such as ` + "`PYTHONPATH`" + ` before what the image has.

What a node cannot tell (RDMA devices, traffic class, service level) leaves a variable unset, and a flag that needs it out, with a warning; neither is ever an empty value.

Before a program is started, the very process that becomes it reports its environment, and the controller compares it with the plan. A planned variable that is missing or different ends the run (exit code 6), naming variable, scope, planned and seen. Secrets are compared by a keyed hash whose key is never stored. Variables that neither the plan nor the image set are a warning. ` + "`disagg env RUN [NAME]`" + ` shows for every variable who set it, what it beat, where it went and what was seen.

## What is inherited

| Variable | What for | By the job | By plain processes |
|---|---|---|---|
`)
	for _, i := range inheritance() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", i.name, i.why, tick(i.job), tick(i.direct))
	}
	b.WriteString(`
The job is the controller, the agents on the nodes and the container program; a plain process (` + "`container.runtime: none`" + `) inherits from its agent. Containers inherit nothing. Slurm adds its own variables to the job, but they go no further.
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

func tick(yes bool) string {
	if yes {
		return "yes"
	}
	return ""
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
