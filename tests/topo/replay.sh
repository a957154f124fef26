#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Reads the XML files of folders, of hwloc or of NCCL's dumps, and prints what was found beside what is in them:
#   replay.sh FOLDER...
# In the file: of NCCL's the elements that stand for each kind; of hwloc's the objects of each type, and of devices the
# names by which libraries know GPUs (cuda, nvml, rsmi; one GPU may have several), and network and OpenFabrics devices
# (a port may be both).  Exit status 1 when a file is neither read nor refused in words.
rondo_topo=${top_builddir:-build}/tools/rondo-topo
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

count() { grep -cE "$1" "$work/tree" || true; }
seen() { grep -oE "$1" "$file" | sort -u | wc -l; }
all() { grep -oE "$1" "$file" | wc -l; }

in_file() {
    if grep -q '<system' "$file"; then
        echo "cpu $(all '<cpu '), gpu $(all '<gpu '), net $(all '<net '), nvlink or xgmi $(all '<(nvlink|xgmi) ')"
    else
        echo "Package $(all '<object type="(Package|Socket)"'), NUMANode $(all '<object type="NUMANode"'), names of GPUs" \
            "$(seen 'name="(cuda|nvml|rsmi)[0-9]+"'), network $(all 'osdev_type="2"'), OpenFabrics $(all 'osdev_type="3"')"
    fi
}

status=0 files=0 refused=0
printf '%-44s %4s %5s %4s %4s %5s  %s\n' file pack. NUMA GPUs NICs links 'in the file'
for file in $(find "$@" -name '*.xml' | sort); do
    files=$((files + 1))
    timeout 60 "$rondo_topo" --input "$file" --pack > "$work/tree" 2> "$work/why"
    got=$?
    if [ $got -eq 0 ]; then
        printf '%-44s %4d %5d %4d %4d %5d  %s\n' "$(basename "$file")" "$(count '^package ')" "$(count '^numa ')" \
            "$(count '^gpu ')" "$(count '^nic ')" "$(count '^(link|nvlink|xgmi|c2c) ')" "$(in_file)"
    elif [ $got -eq 1 ] && [ -s "$work/why" ]; then
        refused=$((refused + 1))
        printf '%-44s refused: %s\n' "$(basename "$file")" "$(head -c 160 "$work/why")"
    else
        printf '%-44s FAILED, status %d\n' "$(basename "$file")" $got
        status=1
    fi
done
echo "$files files, $refused refused in words"
[ $files -gt 0 ] && exit $status
