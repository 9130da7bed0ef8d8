package env

import (
	"net/url"
	"slices"
	"strings"
)

// Secret says whether the value of a variable must never be shown: by the list
// of known secrets, and by the words that end such names (TOKEN, SECRET, KEY,
// PASSWORD and their kin). Case does not count.
func Secret(name string) bool { return secretName(name) }

// secretName decides by name alone, so that it needs no table.
func secretName(name string) bool {
	n := strings.ToUpper(name)
	switch n {
	case "MODAL_TOKEN_ID", "AWS_ACCESS_KEY_ID", "S3_ACCESS_KEY_ID":
		return true
	}
	return slices.Contains(secretWords(), n[strings.LastIndexByte(n, '_')+1:])
}

func secretWords() []string {
	return []string{"TOKEN", "SECRET", "KEY", "PASSWORD", "PASSWD", "PASSPHRASE", "APIKEY", "CREDENTIAL", "CREDENTIALS"}
}

// SecretValue says whether a value is a URL that carries a password, such as a
// proxy's. The name of the variable does not tell that.
func SecretValue(value string) bool {
	if !strings.Contains(value, "://") || !strings.Contains(value, "@") {
		return false
	}
	u, err := url.Parse(value)
	if err != nil || u.User == nil {
		return false
	}
	_, has := u.User.Password()
	return has
}
