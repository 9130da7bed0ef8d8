// Package formula evaluates integer formulas over named integers, such as
// "max_dispatch_tokens * dp / 2".
//
// Arithmetic is exact: a division must divide, and a result that does not fit
// 64 bits is an error. Sizes of buffers and pools are computed with it, and a
// size that was silently rounded or wrapped fails much later, on the nodes.
package formula

import (
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/scanner"
	"go/token"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/disagg/disagg/models/internal/yamlx"
)

// maxLength bounds a formula in bytes, far above any that a person writes.
const maxLength = 1000

// Formula is a formula that has been read. The zero Formula is empty and
// cannot be evaluated.
type Formula struct {
	text string
	expr ast.Expr
}

// Error is what is wrong with a formula, or with its evaluation.
type Error struct {
	Text string
	// Col is the place in Text, 1-based, in characters.
	Col int
	Msg string
}

// Error prints the message with the formula and the place in it.
func (e *Error) Error() string {
	return fmt.Sprintf("formula %q, character %d: %s", e.Text, e.Col, e.Msg)
}

// Parse reads a formula: decimal numbers, names, + - * / and parentheses. The
// error is an *Error.
func Parse(text string) (Formula, error) {
	f := Formula{text: text}
	if len(text) > maxLength {
		return Formula{}, &Error{Text: text[:20] + "…", Col: 1, Msg: fmt.Sprintf("longer than %d bytes", maxLength)}
	}
	// The Go parser would read these as comments and drop what follows.
	for _, comment := range []string{"//", "/*"} {
		if i := strings.Index(text, comment); i >= 0 {
			return Formula{}, f.fail(i, fmt.Sprintf("%q is not an operator; a division is written / and must divide exactly", comment))
		}
	}
	if i := strings.IndexAny(text, "\n\r;"); i >= 0 {
		return Formula{}, f.fail(i, "a formula is one line")
	}
	if strings.TrimSpace(text) == "" {
		return Formula{}, f.fail(0, "the formula is empty")
	}
	expr, err := parser.ParseExprFrom(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	if err != nil {
		var list scanner.ErrorList
		if errors.As(err, &list) && len(list) > 0 {
			return Formula{}, f.fail(list[0].Pos.Offset, "not a formula: "+list[0].Msg)
		}
		return Formula{}, f.fail(0, "not a formula: "+err.Error())
	}
	if err := f.check(expr); err != nil {
		return Formula{}, err
	}
	f.expr = expr
	return f, nil
}

// check refuses everything of Go's expressions that a formula is not.
func (f Formula) check(e ast.Expr) error {
	switch e := e.(type) {
	case *ast.Ident:
		return nil
	case *ast.BasicLit:
		if e.Kind != token.INT || strings.Trim(e.Value, "0123456789") != "" || len(e.Value) > 1 && e.Value[0] == '0' {
			return f.fail(offset(e), fmt.Sprintf("%s is not a whole number in decimal digits", e.Value))
		}
		return nil
	case *ast.ParenExpr:
		return f.check(e.X)
	case *ast.UnaryExpr:
		if e.Op != token.SUB {
			return f.fail(offset(e), fmt.Sprintf("%q is not allowed; a formula has + - * / and parentheses", e.Op))
		}
		return f.check(e.X)
	case *ast.BinaryExpr:
		switch e.Op {
		case token.ADD, token.SUB, token.MUL, token.QUO:
		default:
			return f.fail(int(e.OpPos)-1, fmt.Sprintf("%q is not allowed; a formula has + - * / and parentheses", e.Op))
		}
		if err := f.check(e.X); err != nil {
			return err
		}
		return f.check(e.Y)
	}
	return f.fail(offset(e), "not a number, a name or an operation; a formula has + - * / and parentheses")
}

// offset is the byte of the text where e begins. A formula is the only file of
// its file set, so positions start at 1.
func offset(e ast.Expr) int { return int(e.Pos()) - 1 }

func (f Formula) fail(at int, msg string) error {
	at = min(max(at, 0), len(f.text))
	return &Error{Text: f.text, Col: utf8.RuneCountInString(f.text[:at]) + 1, Msg: msg}
}

// String returns the formula as it was written.
func (f Formula) String() string { return f.text }

// IsZero says whether no formula has been read.
func (f Formula) IsZero() bool { return f.expr == nil }

// UnmarshalText reads a formula, so that it can be a field of a file.
func (f *Formula) UnmarshalText(text []byte) error {
	v, err := Parse(string(text))
	if err != nil {
		return err
	}
	*f = v
	return nil
}

// MarshalText writes the formula as it was written.
func (f Formula) MarshalText() ([]byte, error) { return []byte(f.text), nil }

// Names lists the names that the formula uses, sorted.
func (f Formula) Names() []string {
	seen := map[string]bool{}
	if f.expr != nil {
		ast.Inspect(f.expr, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				seen[id.Name] = true
			}
			return true
		})
	}
	return slices.Sorted(maps.Keys(seen))
}

// Eval computes the formula. The error is an *Error with the place of the name
// that is not known, of the division that does not divide, or of the operation
// whose result does not fit.
func (f Formula) Eval(vars map[string]int64) (int64, error) {
	if f.expr == nil {
		return 0, f.fail(0, "the formula is empty")
	}
	v, err := f.eval(f.expr, vars)
	if err != nil {
		return 0, err
	}
	n, _ := constant.Int64Val(v)
	return n, nil
}

// eval returns the value of e, which fits an int64.
func (f Formula) eval(e ast.Expr, vars map[string]int64) (constant.Value, error) {
	var v constant.Value
	at := offset(e)
	switch e := e.(type) {
	case *ast.Ident:
		n, ok := vars[e.Name]
		if !ok {
			return nil, f.unknown(at, e.Name, vars)
		}
		v = constant.MakeInt64(n)
	case *ast.BasicLit:
		v = constant.MakeFromLiteral(e.Value, token.INT, 0)
	case *ast.ParenExpr:
		return f.eval(e.X, vars)
	case *ast.UnaryExpr:
		// A literal is negated before its range is checked: the lowest number
		// has no positive counterpart.
		if lit, ok := e.X.(*ast.BasicLit); ok {
			v = constant.UnaryOp(token.SUB, constant.MakeFromLiteral(lit.Value, token.INT, 0), 0)
			break
		}
		x, err := f.eval(e.X, vars)
		if err != nil {
			return nil, err
		}
		v = constant.UnaryOp(token.SUB, x, 0)
	case *ast.BinaryExpr:
		x, err := f.eval(e.X, vars)
		if err != nil {
			return nil, err
		}
		y, err := f.eval(e.Y, vars)
		if err != nil {
			return nil, err
		}
		at = int(e.OpPos) - 1
		op := e.Op
		if op == token.QUO {
			if constant.Sign(y) == 0 {
				return nil, f.fail(at, fmt.Sprintf("%s is divided by zero", x))
			}
			if rest := constant.BinaryOp(x, token.REM, y); constant.Sign(rest) != 0 {
				return nil, f.fail(at, fmt.Sprintf("%s cannot be divided by %s without a rest", x, y))
			}
			if constant.Compare(y, token.EQL, constant.MakeInt64(-1)) {
				// go/constant wraps around when it divides the lowest number by -1.
				v = constant.UnaryOp(token.SUB, x, 0)
				break
			}
			op = token.QUO_ASSIGN // go/constant's name for the integer division
		}
		v = constant.BinaryOp(x, op, y)
	}
	if _, exact := constant.Int64Val(v); !exact {
		return nil, f.fail(at, fmt.Sprintf("%s does not fit 64 bits", v.ExactString()))
	}
	return v, nil
}

func (f Formula) unknown(at int, name string, vars map[string]int64) error {
	names := slices.Sorted(maps.Keys(vars))
	msg := fmt.Sprintf("%q is not a known name", name)
	if near := yamlx.Nearest(name, names); near != "" {
		msg += fmt.Sprintf("; did you mean %q?", near)
	} else if len(names) > 0 {
		msg += "; known are " + strings.Join(names, ", ")
	}
	return f.fail(at, msg)
}
