#!/bin/sh
# One fake program. It notes its call in made/N, then gives the first answer that
# is left for exactly these arguments: answers/<hash of the call>/NNN holds it,
# and times/ in there an empty directory for each time it may still be given.
dir='@DIR@'
n=1
while ! /bin/mkdir "$dir/made/$n" 2>/dev/null; do n=$((n + 1)); done
/usr/bin/env -0 >"$dir/made/$n/environ"
PATH=/usr/bin:/bin
printf '%s\0' '@PROGRAM@' "$@" >"$dir/made/$n/argv"
key=$(sha256sum <"$dir/made/$n/argv")
for answer in "$dir/answers/${key%% *}"/*; do
	for time in "$answer"/times/*; do
		[ -e "$answer/always" ] || rmdir "$time" 2>/dev/null || continue
		: >"$dir/made/$n/expected"
		sleep "$(cat "$answer/delay")"
		cat "$answer/stdout"
		cat "$answer/stderr" >&2
		code=$(cat "$answer/exit")
		[ "$code" -ge 0 ] || kill -KILL $$
		exit "$code"
	done
done
echo "fake: call that was not expected: @PROGRAM@ $*" >&2
exit 97
