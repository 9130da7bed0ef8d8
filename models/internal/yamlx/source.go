package yamlx

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// source is the text of a file, for snippets.
type source struct {
	file   string
	lines  []string
	widths []int // of the lines, in characters
}

// newSource splits data where the YAML library ends lines, so that its line
// numbers fit: \n, \r\n, \r, NEL, LS and PS.
func newSource(file string, data []byte) source {
	text := strings.TrimPrefix(string(data), "\ufeff")
	var lines []string
	start := 0
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch r {
		case '\r':
			if i+1 < len(text) && text[i+1] == '\n' {
				n = 2
			}
			fallthrough
		case '\n', '\u0085', '\u2028', '\u2029':
			lines = append(lines, text[start:i])
			start = i + n
		}
		i += n
	}
	if start < len(text) || len(lines) == 0 {
		lines = append(lines, text[start:])
	}
	widths := make([]int, len(lines))
	for i, l := range lines {
		widths[i] = utf8.RuneCountInString(l)
	}
	return source{file: file, lines: lines, widths: widths}
}

// clamp moves a place into the file.
func (s source) clamp(line, col int) (int, int) {
	line = min(max(line, 1), len(s.lines))
	return line, min(max(col, 1), s.widths[line-1]+1)
}

// snippetWidth is how much of a line a snippet shows; long enough for a flag
// list, short enough for a terminal.
const snippetWidth = 110

// A snippet stops before the value of a key whose name says that it is a
// secret, and before the password in a URL.
var (
	secretKey   = regexp.MustCompile(`(?i)((?:TOKEN|SECRET|[_A-Z0-9]KEY|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)["']?[ \t]*:[ \t]+)\S`)
	urlPassword = regexp.MustCompile(`://[^/\s:@]*:[^/\s@]*@`)
)

// hideSecrets cuts a line before the first secret in it.
func hideSecrets(line string) string {
	cut := len(line)
	if m := secretKey.FindStringSubmatchIndex(line); m != nil {
		cut = min(cut, m[3])
	}
	if m := urlPassword.FindStringIndex(line); m != nil {
		cut = min(cut, m[0]+len("://"))
	}
	if cut == len(line) {
		return line
	}
	return line[:cut] + "…"
}

// snippet shows a line with a caret under col. Control characters are replaced
// and values of secrets are hidden.
func (s source) snippet(line, col int) string {
	line, col = s.clamp(line, col)
	text := hideSecrets(s.lines[line-1])
	runes := []rune(text)
	col = min(col, len(runes)+1)
	for i, r := range runes {
		if r == '\t' {
			runes[i] = ' '
		} else if !unicode.IsPrint(r) {
			runes[i] = '·'
		}
	}
	from := 0
	if col > snippetWidth-10 {
		from = col - snippetWidth/2
	}
	to := min(len(runes), from+snippetWidth)
	shown, pad := string(runes[from:to]), col-1-from
	if from > 0 {
		shown, pad = "…"+shown, pad+1
	}
	if to < len(runes) {
		shown += "…"
	}
	return strings.TrimRight(shown, " ") + "\n" + strings.Repeat(" ", pad) + "^"
}
