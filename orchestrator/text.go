package orchestrator

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// plural helps messages: "1 node", "3 nodes".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// shownMost bounds lists in messages.
const shownMost = 12

// joinMost joins the first of many texts and counts the rest.
func joinMost(texts []string) string {
	if len(texts) <= shownMost {
		return strings.Join(texts, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(texts[:shownMost], ", "), len(texts)-shownMost)
}

// sortedKeys gives a map's keys in an order that does not change.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// times says how often.
func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
