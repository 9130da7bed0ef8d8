package hostlist

import (
	"strconv"
	"strings"
)

// Compress writes hosts as one expression, in their order and with whatever
// occurs twice, so that Expand gives the same list again. Only numbers at the
// end of a name are folded: Slurm cannot read a name that goes on after the
// bracket.
func Compress(hosts []string) string {
	var out strings.Builder
	for len(hosts) > 0 {
		if out.Len() > 0 {
			out.WriteByte(',')
		}
		hosts = hosts[writeGroup(&out, hosts):]
	}
	return out.String()
}

// writeGroup writes the hosts at the beginning that share a prefix and returns
// how many they are.
func writeGroup(out *strings.Builder, hosts []string) int {
	prefix, digits := split(hosts[0])
	numbers := []string{digits}
	for _, h := range hosts[1:] {
		p, d := split(h)
		if p != prefix || d == "" || digits == "" {
			break
		}
		numbers = append(numbers, d)
	}
	out.WriteString(prefix)
	if len(numbers) == 1 {
		out.WriteString(digits)
		return 1
	}
	sep := byte('[')
	for i := 0; i < len(numbers); {
		out.WriteByte(sep)
		sep = ','
		n := run(numbers[i:])
		out.WriteString(numbers[i])
		if n > 1 {
			out.WriteByte('-')
			out.WriteString(numbers[i+n-1])
		}
		i += n
	}
	out.WriteByte(']')
	return len(numbers)
}

// run is how many numbers at the beginning count up by one, each written as a
// range from the first would write it.
func run(numbers []string) int {
	first, _ := strconv.Atoi(numbers[0])
	n := 1
	for n < len(numbers) && n < MaxHosts && numbers[n] == pad(first+n, len(numbers[0])) {
		n++
	}
	return n
}

// split cuts the number off the end of a name; digits is empty where there is
// none, or where it is too long to count with.
func split(host string) (prefix, digits string) {
	i := len(host)
	for i > 0 && isDigit(host[i-1]) {
		i--
	}
	if len(host)-i > maxDigits {
		return host, ""
	}
	return host[:i], host[i:]
}
