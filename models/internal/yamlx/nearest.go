package yamlx

import "strings"

// Nearest returns the name of names that was most probably meant by word, or ""
// when none is close. Case, '-', '_' and blanks do not count; of equally close
// names the first wins.
func Nearest(word string, names []string) string {
	if len(word) > maxWord {
		return ""
	}
	w := fold(word)
	best, bestAt := "", max(1, len(w)/3)+1
	for _, name := range names {
		if d := Distance(w, fold(name)); d < bestAt {
			best, bestAt = name, d
		}
	}
	return best
}

// maxWord bounds what can be a misspelt name, in bytes.
const maxWord = 200

func fold(s string) []rune {
	return []rune(strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == ' ' {
			return -1
		}
		return r
	}, strings.ToLower(s)))
}

// Distance is the number of single-character insertions, deletions,
// replacements and swaps of neighbours between a and b.
func Distance(a, b []rune) int {
	before, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
}
